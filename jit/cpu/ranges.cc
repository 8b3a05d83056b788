// Bounds of index arithmetic. Every extent of a tensor is taken to be below 2^40; sums and products that
// leave 2^61 are unbounded.
#include <algorithm>

#include "ir/base/checked_math.h"
#include "jit/cpu/code.h"

namespace kiln::jit::cpu {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 61;

using Range = Code::Range;
constexpr Range kAnything{-kFar, kFar};

Range bounded(std::int64_t low, std::int64_t high) {
  return low < -kFar || high > kFar ? kAnything : Range{low, high};
}

}  // namespace

bool Code::is_below(llvm::Value* value, llvm::Value* bound) const {
  return has_bound(value, bound) || range_of(value).high < range_of(bound).low;
}

bool Code::has_bound(llvm::Value* value, llvm::Value* bound) const {
  const auto* product = llvm::dyn_cast<llvm::BinaryOperator>(value);
  const auto* factor = product != nullptr && product->getOpcode() == llvm::Instruction::Mul
                           ? llvm::dyn_cast<llvm::ConstantInt>(product->getOperand(1))
                           : nullptr;
  return bounds_.lookup(value) == std::pair(bound, std::int64_t{1}) ||
         (factor != nullptr &&
          bounds_.lookup(product->getOperand(0)) == std::pair(bound, factor->getSExtValue()));
}

Range Code::range_of(llvm::Value* value, int depth) const {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value)) {
    const std::int64_t number = constant->getSExtValue();
    return bounded(number, number);
  }
  if (const auto known = ranges_.find(value); known != ranges_.end()) return known->second;
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (instruction == nullptr || !value->getType()->isIntegerTy(64) || depth == 0) return kAnything;
  const auto operand = [&](unsigned k) { return range_of(instruction->getOperand(k), depth - 1); };
  switch (instruction->getOpcode()) {
    case llvm::Instruction::Add: {
      const Range a = operand(0), b = operand(1);
      return bounded(a.low + b.low, a.high + b.high);
    }
    case llvm::Instruction::Sub: {
      const Range a = operand(0), b = operand(1);
      const bool positive = has_bound(instruction->getOperand(1), instruction->getOperand(0));
      return bounded(std::max<std::int64_t>(a.low - b.high, positive ? 1 : -kFar), a.high - b.low);
    }
    case llvm::Instruction::Mul: {
      const Range a = operand(0), b = operand(1);
      Range result{kFar, -kFar};
      for (const std::int64_t x : {a.low, a.high}) {
        for (const std::int64_t y : {b.low, b.high}) {
          const auto product = checked_multiply(x, y);
          if (!product) return kAnything;
          result = {std::min(result.low, *product), std::max(result.high, *product)};
        }
      }
      return bounded(result.low, result.high);
    }
    case llvm::Instruction::Select: {
      const Range a = operand(1), b = operand(2);
      const auto* test = llvm::dyn_cast<llvm::ICmpInst>(instruction->getOperand(0));
      const bool of_these = test != nullptr && test->getOperand(0) == instruction->getOperand(1) &&
                            test->getOperand(1) == instruction->getOperand(2);
      if (of_these && test->getPredicate() == llvm::CmpInst::ICMP_SLT) {
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      if (of_these && test->getPredicate() == llvm::CmpInst::ICMP_SGT) {
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    case llvm::Instruction::UDiv:
    case llvm::Instruction::SDiv:
    case llvm::Instruction::AShr: {
      const Range a = operand(0);
      return a.low >= 0 && operand(1).low >= 0 ? Range{0, a.high} : kAnything;
    }
    case llvm::Instruction::URem:
    case llvm::Instruction::SRem: {
      const Range a = operand(0), b = operand(1);
      return a.low >= 0 && b.low > 0 ? Range{0, std::min(a.high, b.high - 1)} : kAnything;
    }
    default:
      return kAnything;
  }
}

}  // namespace kiln::jit::cpu
