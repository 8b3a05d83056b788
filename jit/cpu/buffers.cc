// Scratch: buffers of tiles, and memory that is local to a program instance. Small buffers lie on the stack,
// where LLVM turns what it can into registers; the rest lies in the caller's scratch, locals first.
#include <algorithm>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::BlockId;
using tile::Op;
using tile::Opcode;
using tile::Type;
using tile::ValueId;

namespace {

constexpr std::int64_t kSmallBuffer = 4096;  // bytes of one buffer on the stack
constexpr std::int64_t kStackLimit = 32768;  // bytes of all of them
constexpr std::int64_t kLine = 64;

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Buffer Lowering::new_buffer(const Type& type, bool dense) {
  Buffer buffer;
  buffer.dtype = type.element;
  buffer.strides.assign(type.extents.size(), 0);
  const std::int64_t width = byte_width(type.element);
  std::int64_t stride = 1;
  bool rows = false;
  for (std::size_t axis = type.extents.size(); axis-- > 0;) {
    if (type.extents[axis] == 1) continue;
    buffer.strides[axis] = stride;
    stride *= type.extents[axis];
    if (!rows && !dense) {
      // Rows begin at vectors, and not a multiple of 4 KiB apart, where they would share cache sets.
      stride = round_up(stride * width, kLine) / width;
      if (stride * width % 4096 == 0) stride += kLine / width;
    }
    rows = true;
  }
  // A strip may read beyond the last element.
  const std::int64_t bytes = round_up(stride * width, kLine) + kLine;
  if (bytes <= kSmallBuffer && stack_bytes_ + bytes <= kStackLimit) {
    stack_bytes_ += bytes;
    buffer.data = code_.stack(bytes);
    return buffer;
  }
  const Code::Hoist hoist(code_, {buffer_base_});
  buffer.data = builder().CreateConstGEP1_64(builder().getInt8Ty(), buffer_base_,
                                             static_cast<std::uint64_t>(buffer_top_));
  buffer_top_ += bytes;
  buffer_high_ = std::max(buffer_high_, buffer_top_);
  return buffer;
}

const Buffer& Lowering::buffer(ValueId value) const {
  const auto found = buffers_.find(value.index);
  require(found != buffers_.end(), "tile {} of kernel {} has no buffer", value.index, kernel_.name);
  return found->second;
}

void Lowering::for_each_local(BlockId block, const std::function<void(const Op&)>& visit) const {
  for (const tile::OpId id : kernel_.block(block).ops) {
    const Op& op = kernel_.op(id);
    if (op.code == Opcode::Local) visit(op);
    for (const BlockId inner : op.blocks) for_each_local(inner, visit);
  }
}

// Bytes set aside for a local: by its extents where the arguments alone determine them, else its maximum.
llvm::Value* Lowering::local_bytes(const Op& op) {
  const Type& type = kernel_.type(op.results[0]);
  const std::int64_t width = byte_width(type.element);
  llvm::Value* most = code_.index(op.attributes.count);
  llvm::Value* elements = code_.index(1);
  std::size_t next = 0;
  for (const std::int64_t extent : type.extents) {
    llvm::Value* own = extent == tile::kDynamic ? from_arguments(op.operands[next++]) : code_.index(extent);
    if (own == nullptr) {
      elements = most;
      break;
    }
    own = code_.min(code_.max(own, code_.index(0)), most);
    elements = code_.min(code_.mul(elements, own), most);
  }
  llvm::Value* bytes = code_.add(code_.mul(elements, code_.index(width)), code_.index(kLine - 1));
  return code_.mul(code_.floor_divide(bytes, kLine), code_.index(kLine));
}

void Lowering::prepare_locals() {
  llvm::Value* offset = code_.index(0);
  for_each_local(kernel_.body, [&](const Op& op) {
    local_offsets_[op.results[0].index] = offset;
    offset = code_.add(offset, local_bytes(op));
  });
  buffer_base_ = builder().CreateGEP(builder().getInt8Ty(), scratch_, offset);
}

// A local that is larger than it may be has no live elements, so that nothing is overwritten.
void Lowering::lower_local(tile::OpId id) {
  const Op& op = kernel_.op(id);
  const ValueId view = op.results[0];
  const Type& type = kernel_.type(view);
  Values extents;
  llvm::Value* beyond = code_.index(op.attributes.count + 1);
  llvm::Value* elements = code_.index(1);
  std::size_t next = 0;
  bool dynamic = false;
  for (const std::int64_t extent : type.extents) {
    dynamic = dynamic || extent == tile::kDynamic;
    llvm::Value* own = extent == tile::kDynamic ? code_.max(scalar(op.operands[next++]), code_.index(0))
                                                : code_.index(extent);
    extents.push_back(own);
    elements = code_.min(code_.mul(elements, code_.min(own, beyond)), beyond);
  }
  if (dynamic) {
    llvm::Value* fits = code_.less(elements, beyond);
    report(builder().CreateNot(fits), StatusCode::LocalTooLarge, elements);
    for (llvm::Value*& extent : extents) extent = code_.select(fits, extent, code_.index(0));
    for (llvm::Value* extent : extents) code_.set_range(extent, {0, op.attributes.count});
  }
  Memory memory;
  {
    const Code::Hoist hoist(code_, {scratch_, local_offsets_.at(view.index)});
    memory.data = builder().CreateGEP(builder().getInt8Ty(), scratch_, local_offsets_.at(view.index));
  }
  memory.strides.assign(extents.size(), nullptr);
  llvm::Value* stride = code_.index(1);
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    memory.strides[axis] = stride;
    stride = code_.mul(stride, extents[axis]);
  }
  memories_[view.index] = std::move(memory);
  extents_[view.index] = std::move(extents);
}

// A scalar as a function of the arguments alone, at the function's entry.
llvm::Value* Lowering::from_arguments(ValueId value) {
  if (scalars_[value.index] != nullptr && code_.level_of(scalars_[value.index]) == 0)
    return scalars_[value.index];
  const tile::OpId definer = plan_.definer(value);
  if (!definer || !plan_.is_scalar(value)) return nullptr;
  const Op& op = kernel_.op(definer);
  switch (op.code) {
    case Opcode::Dim: {
      const auto found = extents_.find(op.operands[0].index);
      return found == extents_.end() ? nullptr
                                     : found->second[static_cast<std::size_t>(op.attributes.axes[0])];
    }
    case Opcode::Constant:
    case Opcode::Elementwise:
    case Opcode::Cast:
    case Opcode::Assume:
    case Opcode::Reshape:
      break;
    default:
      return nullptr;
  }
  for (const ValueId operand : op.operands) {
    if (from_arguments(operand) == nullptr) return nullptr;
  }
  lower_scalar(op);
  return scalars_[value.index];
}

}  // namespace kiln::jit::cpu
