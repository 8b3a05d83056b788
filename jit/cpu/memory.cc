// Strips of memory: addresses, and loads and stores of the lanes that are live.
#include <algorithm>
#include <functional>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/transpose.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

namespace {

llvm::Align element_align(DType dtype) { return llvm::Align(static_cast<std::uint64_t>(byte_width(dtype))); }

// In registers a boolean is a bit, in memory a byte.
llvm::Value* from_memory(Builder& b, llvm::Value* value, DType dtype) {
  return dtype == DType::I1 ? b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())) : value;
}
llvm::Value* to_memory(Builder& b, llvm::Value* value, DType dtype) {
  return dtype == DType::I1 ? b.CreateZExt(value, value->getType()->getWithNewType(b.getInt8Ty())) : value;
}

}  // namespace

llvm::Value* Lowering::vector_of(llvm::Value* value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return builder().CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

llvm::Value* Lowering::lanes_between(llvm::Value* first, llvm::Value* last) {
  const int lanes = strip_.lanes;
  std::vector<llvm::Constant*> numbers;
  for (int lane = 0; lane < lanes; ++lane) numbers.push_back(builder().getInt32(static_cast<unsigned>(lane)));
  llvm::Value* lane = llvm::ConstantVector::get(numbers);
  const auto bound = [&](llvm::Value* value) {
    llvm::Value* clamped = code_.min(code_.max(value, code_.index(0)), code_.index(lanes));
    const Code::Hoist hoist(code_, {clamped}, strip_.value_floor);
    return vector_of(builder().CreateTrunc(clamped, builder().getInt32Ty()), lanes);
  };
  const auto compared = [&](llvm::CmpInst::Predicate predicate, llvm::Value* value) -> llvm::Value* {
    if (value == nullptr) return nullptr;
    llvm::Value* limit = bound(value);
    const Code::Hoist hoist(code_, {limit}, strip_.value_floor);
    return builder().CreateICmp(predicate, lane, limit);
  };
  llvm::Value* before = compared(llvm::CmpInst::ICMP_ULT, last);
  return code_.both(before, compared(llvm::CmpInst::ICMP_UGE, first));
}

llvm::Value* Lowering::holds(const Condition& condition) {
  const Coordinate& at = condition.at;
  std::vector<llvm::Value*> key{at.base, at.lanes, condition.extent, code_.index(at.step),
                                code_.index(strip_.lanes)};
  llvm::Value*& known = known_conditions_[std::move(key)];
  if (known == nullptr || !code_.is_visible(known)) known = test(condition);
  return known;
}

// Null: all lanes are known to be in range.
llvm::Value* Lowering::test(const Condition& condition) {
  const Coordinate& at = condition.at;
  if (at.lanes != nullptr) {
    const Code::Hoist hoist(code_, {at.lanes, condition.extent}, strip_.value_floor);
    return builder().CreateICmpULT(at.lanes, vector_of(condition.extent, strip_.lanes));
  }
  const bool low_known = low_is_known(at, strip_.lanes);
  const bool high_known = high_is_known(at, condition.extent, strip_.lanes);
  if (low_known && high_known) return nullptr;
  if (at.step == 0 || strip_.lanes == 1) {
    const Code::Hoist hoist(code_, {at.base, condition.extent});
    if (low_known) return builder().CreateICmpSLT(at.base, condition.extent);
    return builder().CreateICmpULT(at.base, condition.extent);
  }
  const auto [first, last] = live_lanes(condition, low_known, high_known);
  return lanes_between(first, last);
}

// The index is to be at least 0, and below the extent.
std::pair<llvm::Value*, llvm::Value*> Lowering::live_lanes(const Condition& condition, bool low_known,
                                                           bool high_known) {
  const Coordinate& at = condition.at;
  const std::int64_t step = std::abs(at.step);
  const auto negative = [&](llvm::Value* value) { return code_.sub(code_.index(0), value); };
  const auto ceiling = [&](llvm::Value* value) {
    return negative(code_.floor_divide(negative(value), step));
  };
  const auto behind = [&](llvm::Value* value) {
    return code_.add(code_.floor_divide(value, step), code_.index(1));
  };
  llvm::Value* first = nullptr;
  llvm::Value* last = nullptr;
  if (at.step > 0) {
    if (!low_known) first = ceiling(negative(at.base));
    if (!high_known) last = ceiling(code_.sub(condition.extent, at.base));
  } else {
    if (!low_known) last = behind(at.base);
    if (!high_known) first = behind(code_.sub(at.base, condition.extent));
  }
  return {first, last};
}

llvm::Value* Lowering::advance(llvm::Value* pointer, llvm::Type* element, llvm::Value* offset) {
  if (Code::is_constant(offset, 0)) return pointer;
  llvm::Value* width = code_.index(static_cast<std::int64_t>(element->getPrimitiveSizeInBits()));
  llvm::Value*& known = known_addresses_[{pointer, offset, width}];
  if (known == nullptr || !code_.is_visible(known)) {
    const Code::Hoist hoist(code_, {pointer, offset});
    known = builder().CreateGEP(element, pointer, offset);
  }
  return known;
}

// Terms are added from the outermost level inwards and constants last, so that what is the same in a loop is
// one pointer computed before it, and unrolled strips differ by a displacement.
Lowering::Address Lowering::address(llvm::Value* data, const Values& strides, const Coordinates& at,
                                    DType dtype) {
  Address result;
  llvm::Type* element = memory_type(code_.context(), dtype);
  std::vector<std::pair<int, llvm::Value*>> terms;
  llvm::Value* constant = code_.index(0);
  result.lane_stride = code_.index(0);
  result.row_stride = code_.index(0);
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    const Coordinate& coordinate = at[axis];
    llvm::Value* stride = strides[axis];
    if (coordinate.lanes != nullptr) {
      llvm::Value* scaled = nullptr;
      {
        const Code::Hoist hoist(code_, {coordinate.lanes, stride}, strip_.value_floor);
        scaled = builder().CreateMul(coordinate.lanes, vector_of(stride, strip_.lanes));
      }
      if (result.offsets != nullptr) {
        const Code::Hoist hoist(code_, {result.offsets, scaled}, strip_.value_floor);
        scaled = builder().CreateAdd(result.offsets, scaled);
      }
      result.offsets = scaled;
      continue;
    }
    const std::function<void(llvm::Value*)> add_terms = [&](llvm::Value* base) {
      auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(base);
      if (llvm::isa<llvm::ConstantInt>(base)) {
        constant = code_.add(constant, code_.mul(base, stride));
      } else if (sum != nullptr && sum->getOpcode() == llvm::Instruction::Add) {
        add_terms(sum->getOperand(0));
        add_terms(sum->getOperand(1));
      } else {
        llvm::Value* term = code_.mul(base, stride);
        terms.emplace_back(code_.level_of(term), term);
      }
    };
    add_terms(coordinate.base);
    if (coordinate.row_step == Coordinate::kIrregular || result.row_stride == nullptr) {
      result.row_stride = nullptr;
    } else if (coordinate.row_step != 0) {
      result.row_stride = code_.add(result.row_stride, code_.mul(stride, code_.index(coordinate.row_step)));
    }
    if (coordinate.step != 0) {
      result.lane_stride = code_.add(result.lane_stride, code_.mul(stride, code_.index(coordinate.step)));
    }
  }
  if (!llvm::isa<llvm::ConstantInt>(constant)) terms.emplace_back(code_.level_of(constant), constant);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  result.pointer = data;
  for (const auto& [level, term] : terms) result.pointer = advance(result.pointer, element, term);
  if (llvm::isa<llvm::ConstantInt>(constant)) result.pointer = advance(result.pointer, element, constant);
  if (result.offsets != nullptr && !Code::is_constant(result.lane_stride, 0)) {
    Coordinate lanes;
    lanes.base = code_.index(0);
    lanes.step = 1;
    llvm::Value* numbers = coordinate_lanes(lanes);
    result.offsets = builder().CreateAdd(
        result.offsets, builder().CreateMul(numbers, vector_of(result.lane_stride, strip_.lanes)));
  }
  return result;
}

// A value for every lane that `mask` (null: all) selects, `fallback` for the others. Uniform addresses give a
// scalar.
llvm::Value* Lowering::load_lanes(const Address& at, DType dtype, llvm::Value* mask, llvm::Value* fallback) {
  if (fallback == nullptr) fallback = llvm::PoisonValue::get(register_type(code_.context(), dtype));
  Builder& b = builder();
  llvm::Type* element = memory_type(code_.context(), dtype);
  const int lanes = strip_.lanes;
  const bool uniform = lanes == 1 || (at.offsets == nullptr && Code::is_constant(at.lane_stride, 0));
  const bool scalar_mask = mask == nullptr || !mask->getType()->isVectorTy();
  if (uniform && scalar_mask) {
    llvm::Value* pointer = mask == nullptr ? at.pointer : b.CreateSelect(mask, at.pointer, anywhere_);
    llvm::Value* value = from_memory(b, b.CreateAlignedLoad(element, pointer, element_align(dtype)), dtype);
    return mask == nullptr ? value : b.CreateSelect(mask, value, fallback);
  }
  llvm::Type* vector = with_lanes(element, lanes);
  if (!uniform && at.offsets == nullptr && Code::is_constant(at.lane_stride, 1)) {
    if (scalar_mask) {
      llvm::Value* pointer = mask == nullptr ? at.pointer : b.CreateSelect(mask, at.pointer, anywhere_);
      llvm::Value* value = from_memory(b, b.CreateAlignedLoad(vector, pointer, element_align(dtype)), dtype);
      return mask == nullptr ? value : b.CreateSelect(mask, value, vector_of(fallback, lanes));
    }
    llvm::Value* raw = b.CreateMaskedLoad(vector, at.pointer, element_align(dtype), mask,
                                          to_memory(b, vector_of(fallback, lanes), dtype));
    return from_memory(b, raw, dtype);
  }
  if (mask != nullptr) mask = vector_of(mask, lanes);
  if (uniform) {
    llvm::Value* pointer = b.CreateSelect(any_lane(mask), at.pointer, anywhere_);
    llvm::Value* value = from_memory(b, b.CreateAlignedLoad(element, pointer, element_align(dtype)), dtype);
    return b.CreateSelect(mask, vector_of(value, lanes), vector_of(fallback, lanes));
  }
  const auto offset_of = [&](int lane) -> llvm::Value* {
    if (at.offsets != nullptr) return b.CreateExtractElement(at.offsets, static_cast<std::uint64_t>(lane));
    return b.CreateMul(at.lane_stride, code_.index(lane));
  };
  if (target_.isa == Isa::X86_64_V4 && byte_width(dtype) >= 4) {
    llvm::Value* offsets = at.offsets;
    if (offsets == nullptr) {
      Coordinate numbers;
      numbers.base = code_.index(0);
      numbers.step = 1;
      offsets = b.CreateMul(coordinate_lanes(numbers), vector_of(at.lane_stride, lanes));
    }
    llvm::Value* pointers = b.CreateGEP(element, at.pointer, offsets);
    if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(with_lanes(b.getInt1Ty(), lanes));
    return b.CreateMaskedGather(vector, pointers, element_align(dtype), mask, vector_of(fallback, lanes));
  }
  llvm::Value* result = llvm::PoisonValue::get(vector);
  for (int lane = 0; lane < lanes; ++lane) {
    llvm::Value* pointer = b.CreateGEP(element, at.pointer, offset_of(lane));
    if (mask != nullptr) {
      pointer =
          b.CreateSelect(b.CreateExtractElement(mask, static_cast<std::uint64_t>(lane)), pointer, anywhere_);
    }
    llvm::Value* value = b.CreateAlignedLoad(element, pointer, element_align(dtype));
    result = b.CreateInsertElement(result, value, static_cast<std::uint64_t>(lane));
  }
  result = from_memory(b, result, dtype);
  return mask == nullptr ? result : b.CreateSelect(mask, result, vector_of(fallback, lanes));
}

void Lowering::store_lanes(const Address& at, DType dtype, llvm::Value* mask, llvm::Value* value) {
  Builder& b = builder();
  const int lanes = strip_.lanes;
  if (lanes == 1) {
    value = to_memory(b, value, dtype);
    const auto put = [&]() -> Values {
      builder().CreateAlignedStore(value, at.pointer, element_align(dtype));
      return {};
    };
    if (mask == nullptr) {
      put();
    } else {
      code_.branch(mask, put, [] { return Values{}; });
    }
    return;
  }
  value = to_memory(b, vector_of(value, lanes), dtype);
  if (mask != nullptr) mask = vector_of(mask, lanes);
  if (at.offsets == nullptr && Code::is_constant(at.lane_stride, 1)) {
    if (mask == nullptr) {
      b.CreateAlignedStore(value, at.pointer, element_align(dtype));
    } else {
      b.CreateMaskedStore(value, at.pointer, element_align(dtype), mask);
    }
    return;
  }
  llvm::Value* offsets = at.offsets;
  if (offsets == nullptr) {
    Coordinate numbers;
    numbers.base = code_.index(0);
    numbers.step = 1;
    offsets = b.CreateMul(coordinate_lanes(numbers), vector_of(at.lane_stride, lanes));
  }
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(with_lanes(b.getInt1Ty(), lanes));
  b.CreateMaskedScatter(value, b.CreateGEP(memory_type(code_.context(), dtype), at.pointer, offsets),
                        element_align(dtype), mask);
}

// A pointer that may be read whether or not `live` (i1) holds: to `pointer`, or to memory full of `fill` if
// that is a constant.
llvm::Value* Lowering::readable(llvm::Value* pointer, llvm::Value* live, llvm::Value* fill, DType dtype) {
  llvm::Value* otherwise = anywhere_;
  if (auto* constant = llvm::dyn_cast_or_null<llvm::Constant>(fill);
      constant != nullptr && dtype != DType::I1) {
    const auto count = static_cast<unsigned>(64 / byte_width(dtype));
    auto* contents = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(count), constant);
    llvm::Module& module = *code_.function()->getParent();
    for (llvm::GlobalVariable& global : module.globals()) {
      if (global.isConstant() && global.getInitializer() == contents) otherwise = &global;
    }
    if (otherwise == anywhere_) {
      auto* global = new llvm::GlobalVariable(module, contents->getType(), true,
                                              llvm::GlobalValue::PrivateLinkage, contents, "fill");
      global->setAlignment(llvm::Align(64));
      otherwise = global;
    }
  }
  const Code::Hoist hoist(code_, {pointer, live});
  return builder().CreateSelect(live, pointer, otherwise);
}

// Row `strip_.row` of a square block whose rows are adjacent in memory but whose lanes are not: as many
// vectors are loaded along the rows as there are lanes, and transposed in registers, once for all rows.
llvm::Value* Lowering::load_transposed(const Access& access, const Address& at) {
  Coordinates first = access.at;
  for (Coordinate& coordinate : first) {
    coordinate.base = code_.add(coordinate.base, code_.index(-coordinate.row_step * strip_.row));
  }
  llvm::Value* origin = address(access.memory.data, access.memory.strides, first, access.dtype).pointer;
  Values& block =
      known_blocks_[{origin, at.lane_stride, code_.index(static_cast<std::int64_t>(access.dtype))}];
  const int lanes = strip_.lanes;
  if (block.empty() || !code_.is_visible(block[0])) {
    llvm::Type* element = memory_type(code_.context(), access.dtype);
    Values rows;
    for (int lane = 0; lane < lanes; ++lane) {
      llvm::Value* pointer = advance(origin, element, code_.mul(at.lane_stride, code_.index(lane)));
      const Code::Hoist hoist(code_, {pointer}, strip_.load_floor);
      llvm::Value* raw =
          builder().CreateAlignedLoad(with_lanes(element, lanes), pointer, element_align(access.dtype));
      rows.push_back(from_memory(builder(), raw, access.dtype));
    }
    const Code::Hoist hoist(code_, rows, strip_.load_floor);
    transpose_registers(builder(), rows);
    block = std::move(rows);
  }
  return block[static_cast<std::size_t>(strip_.row)];
}

llvm::Value* Lowering::load(const Access& access) {
  struct Test {
    llvm::Value* holds;
    llvm::Value* fill;
  };
  std::vector<Test> tests;
  llvm::Value* uniform = nullptr;
  llvm::Value* mask = nullptr;
  bool one_fill = true;
  for (const Condition& condition : access.conditions) {
    if (strip_.interior && !stays_in_interior(condition)) continue;
    llvm::Value* holds_here = holds(condition);
    if (holds_here == nullptr) continue;
    tests.push_back({holds_here, condition.at.fill});
    one_fill = one_fill && condition.at.fill == tests[0].fill;
    (holds_here->getType()->isVectorTy() ? mask : uniform) =
        code_.both(holds_here->getType()->isVectorTy() ? mask : uniform, holds_here);
  }
  Address at = address(access.memory.data, access.memory.strides, access.at, access.dtype);
  llvm::Value* fill = tests.empty() ? nullptr : tests.back().fill;
  if (mask == nullptr && uniform != nullptr && one_fill && access.dtype != DType::I1 &&
      llvm::isa<llvm::Constant>(fill) && at.offsets == nullptr &&
      (Code::is_constant(at.lane_stride, 1) || Code::is_constant(at.lane_stride, 0) || strip_.lanes == 1)) {
    at.pointer = readable(at.pointer, uniform, fill, access.dtype);
    uniform = nullptr;
    tests.clear();
    fill = nullptr;
  }
  if (mask != nullptr && uniform != nullptr) {
    const Code::Hoist hoist(code_, {mask, uniform}, strip_.value_floor);
    mask = builder().CreateAnd(mask, vector_of(uniform, strip_.lanes));
  } else if (mask == nullptr) {
    mask = uniform;
  }
  const bool transposed = strip_.interior && strip_.rows == strip_.lanes && strip_.lanes > 1 &&
                          tests.empty() && at.offsets == nullptr && at.row_stride != nullptr &&
                          Code::is_constant(at.row_stride, 1) && !Code::is_constant(at.lane_stride, 0) &&
                          !Code::is_constant(at.lane_stride, 1);
  if (transposed) return load_transposed(access, at);
  std::vector<llvm::Value*> key{at.pointer, at.lane_stride, at.offsets, code_.index(strip_.lanes),
                                code_.index(static_cast<std::int64_t>(access.dtype))};
  for (const Test& test : tests) key.insert(key.end(), {test.holds, test.fill});
  if (const auto found = known_loads_.find(key);
      found != known_loads_.end() && code_.is_visible(found->second)) {
    return found->second;
  }
  llvm::SmallVector<llvm::Value*, 5> operands{at.pointer, at.lane_stride};
  for (llvm::Value* operand : {at.offsets, mask, fill}) {
    if (operand != nullptr) operands.push_back(operand);
  }
  llvm::Value* value = nullptr;
  {
    const Code::Hoist hoist(code_, operands, strip_.load_floor);
    value = load_lanes(at, access.dtype, mask, fill);
  }
  // Of several levels that a lane left, the outermost decides.
  for (std::size_t k = tests.size(); k-- > 0;) {
    if (tests[k].fill == fill && std::all_of(tests.begin() + static_cast<std::ptrdiff_t>(k), tests.end(),
                                             [&](const Test& test) { return test.fill == fill; })) {
      continue;
    }
    llvm::Value* outside = tests[k].fill;
    const Code::Hoist hoist(code_, {tests[k].holds, value, outside}, strip_.value_floor);
    const int lanes = std::max(lane_count(value->getType()), lane_count(tests[k].holds->getType()));
    value = builder().CreateSelect(tests[k].holds, vector_of(value, lanes), vector_of(outside, lanes));
  }
  known_loads_[std::move(key)] = value;
  return value;
}

void Lowering::store(const Access& access, llvm::Value* value) {
  llvm::Value* mask = strip_.active;
  for (const Condition& condition : access.conditions) {
    if (strip_.interior && !stays_in_interior(condition)) continue;
    llvm::Value* holds_here = holds(condition);
    if (holds_here == nullptr) continue;
    if (mask == nullptr) {
      mask = holds_here;
    } else {
      const int lanes = std::max(lane_count(mask->getType()), lane_count(holds_here->getType()));
      mask = code_.both(vector_of(mask, lanes), vector_of(holds_here, lanes));
    }
  }
  store_lanes(address(access.memory.data, access.memory.strides, access.at, access.dtype), access.dtype, mask,
              value);
}

// One element; runs with one lane.
void Lowering::atomic_add(const Access& access, llvm::Value* value) {
  llvm::Value* live = nullptr;
  for (const Condition& condition : access.conditions) {
    if (llvm::Value* holds_here = holds(condition)) live = code_.both(live, holds_here);
  }
  const Address at = address(access.memory.data, access.memory.strides, access.at, access.dtype);
  const auto add = [&]() -> Values {
    builder().CreateAtomicRMW(is_float(access.dtype) ? llvm::AtomicRMWInst::FAdd : llvm::AtomicRMWInst::Add,
                              at.pointer, value, element_align(access.dtype),
                              llvm::AtomicOrdering::Monotonic);
    return {};
  };
  if (live == nullptr) {
    add();
  } else {
    code_.branch(live, add, [] { return Values{}; });
  }
}

llvm::Value* Lowering::load_buffer(const Buffer& buffer, const Coordinates& at) {
  Values strides;
  for (const std::int64_t stride : buffer.strides) strides.push_back(code_.index(stride));
  const Address where = address(buffer.data, strides, at, buffer.dtype);
  llvm::SmallVector<llvm::Value*, 3> operands{where.pointer, where.lane_stride};
  if (where.offsets != nullptr) operands.push_back(where.offsets);
  const Code::Hoist hoist(code_, operands, strip_.value_floor);
  return load_lanes(where, buffer.dtype, nullptr, nullptr);
}

void Lowering::store_buffer(const Buffer& buffer, const Coordinates& at, llvm::Value* value) {
  Values strides;
  for (const std::int64_t stride : buffer.strides) strides.push_back(code_.index(stride));
  store_lanes(address(buffer.data, strides, at, buffer.dtype), buffer.dtype, strip_.active, value);
}

}  // namespace kiln::jit::cpu
