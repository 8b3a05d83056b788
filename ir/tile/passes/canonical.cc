#include <cstdint>

#include "ir/base/byte_writer.h"
#include "ir/tile/passes/passes.h"

namespace kiln::tile {
namespace {

// Raise when the bytes of an unchanged Kernel change.
constexpr std::uint32_t kVersion = 2;

class CanonicalWriter {
 public:
  explicit CanonicalWriter(const Kernel& kernel)
      : kernel_(kernel), numbers_(kernel.values.size(), UINT32_MAX) {}

  std::vector<std::byte> run() {
    out_.u32(kVersion);
    count(kernel_.parameters.size());
    for (const Parameter& parameter : kernel_.parameters) {
      define(parameter.value);
      out_.u8(static_cast<std::uint8_t>(parameter.access));
      out_.u32(alias_number(parameter.alias_group));
    }
    count(kernel_.equal_extents.size());
    for (const auto& group : kernel_.equal_extents) {
      count(group.size());
      for (const ParameterExtent& extent : group) {
        out_.u32(numbers_[extent.view.index]);
        out_.i64(extent.axis);
      }
    }
    block(kernel_.grid);
    block(kernel_.body);
    return out_.take();
  }

 private:
  void count(std::size_t value) { out_.u64(value); }
  void numbers(const std::vector<std::int64_t>& values) {
    count(values.size());
    for (const std::int64_t value : values) out_.i64(value);
  }

  // Groups by number in order of appearance, as which number a group has means nothing.
  std::uint32_t alias_number(int group) {
    if (group == 0) return 0;
    for (std::uint32_t i = 0; i < alias_groups_.size(); ++i) {
      if (alias_groups_[i] == group) return i + 1;
    }
    alias_groups_.push_back(group);
    return static_cast<std::uint32_t>(alias_groups_.size());
  }

  void define(ValueId id) {
    numbers_[id.index] = next_number_++;
    const Type& type = kernel_.type(id);
    out_.u8(static_cast<std::uint8_t>(type.kind));
    out_.u8(static_cast<std::uint8_t>(type.element));
    numbers(type.extents);
    numbers(type.strides);
    out_.i64(type.alignment);
  }

  void block(BlockId id) {
    const Block& block = kernel_.block(id);
    count(block.arguments.size());
    for (const ValueId argument : block.arguments) define(argument);
    count(block.ops.size());
    for (const OpId op_id : block.ops) op(kernel_.op(op_id));
  }

  void op(const Op& op) {
    out_.text(name(op.code));  // by name: a new row in ops.def must not change the bytes of old Kernels
    count(op.operands.size());
    for (const ValueId operand : op.operands) out_.u32(numbers_[operand.index]);
    attributes(op);
    count(op.results.size());
    for (const ValueId result : op.results) define(result);
    count(op.blocks.size());
    for (const BlockId nested : op.blocks) block(nested);
  }

  void attributes(const Op& op) {
    const Attributes& attributes = op.attributes;
    numbers(attributes.axes);
    numbers(attributes.sizes);
    numbers(attributes.strides);
    numbers(attributes.dilations);
    out_.i64(attributes.count);
    out_.u8(static_cast<std::uint8_t>(attributes.pad_mode));
    out_.boolean(attributes.exclusive);
    out_.boolean(attributes.reverse);
    out_.boolean(attributes.literal.has_value());
    if (attributes.literal) {
      out_.u8(static_cast<std::uint8_t>(attributes.literal->dtype));
      out_.u64(attributes.literal->bits);
    }
    if (op.code == Opcode::Elementwise) out_.text(name(attributes.function));
    if (op.code == Opcode::Reduce || op.code == Opcode::Scan) out_.text(name(attributes.combiner));
    out_.text(attributes.text);
  }

  const Kernel& kernel_;
  std::vector<std::uint32_t> numbers_;
  std::vector<int> alias_groups_;
  std::uint32_t next_number_ = 0;
  ByteWriter out_;
};

}  // namespace

std::vector<std::byte> canonical_bytes(const Kernel& kernel) { return CanonicalWriter(kernel).run(); }

}  // namespace kiln::tile
