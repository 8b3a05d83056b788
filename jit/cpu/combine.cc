// Reductions: how two partial states combine, on vectors or scalars alike. f16 and bf16 accumulate in f32.
#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Combiner;
using tile::Literal;

namespace {

DType accumulator(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

bool gives_position(Combiner combiner) {
  return combiner == Combiner::ArgMax || combiner == Combiner::ArgMin;
}

// The least or greatest value of a dtype; infinite for floats.
Literal extreme(DType dtype, bool greatest) {
  if (is_float(dtype)) return Literal::number(dtype, greatest ? HUGE_VAL : -HUGE_VAL);
  const int width = bits(dtype);
  if (is_unsigned_integer(dtype)) return {dtype, greatest ? ~0ull >> (64 - width) : 0};
  const std::uint64_t top = 1ull << (width - 1);
  return {dtype, greatest ? top - 1 : top};
}

}  // namespace

Values Lowering::identity(Combiner combiner, DType dtype, int lanes) {
  const DType state = accumulator(dtype);
  const auto constant = [&](Literal literal) -> llvm::Value* {
    return constant_of(with_lanes(register_type(code_.context(), state), lanes), state, literal.bits);
  };
  llvm::Value* far = with_lanes(builder().getInt32Ty(), lanes)->isVectorTy()
                         ? vector_of(builder().getInt32(INT32_MAX), lanes)
                         : builder().getInt32(INT32_MAX);
  const auto number = [&](double value) {
    return constant(is_float(state) ? Literal::number(state, value)
                                    : Literal::integer(state, static_cast<std::int64_t>(value)));
  };
  switch (combiner) {
    case Combiner::Sum:
      return {number(is_float(state) ? -0.0 : 0)};  // -0 + x is x, for -0 too
    case Combiner::Prod:
      return {number(1)};
    case Combiner::Min:
      return {constant(extreme(state, true))};
    case Combiner::Max:
      return {constant(extreme(state, false))};
    case Combiner::And:
      return {constant({state, ~0ull})};
    case Combiner::Or:
      return {constant({state, 0})};
    case Combiner::ArgMax:
      return {constant(extreme(state, false)), far};
    case Combiner::ArgMin:
      return {constant(extreme(state, true)), far};
    case Combiner::Welford:
      return {number(0), number(0), number(0)};
    case Combiner::LogSumExp:
      break;
  }
  throw_bug("logsumexp reached the lowering unexpanded");
}

Values Lowering::lift(Combiner combiner, DType dtype, llvm::Value* element, llvm::Value* position) {
  llvm::Value* x = widen(element, dtype);
  const int lanes = lane_count(x->getType());
  if (gives_position(combiner)) return {x, vector_of(position, lanes)};
  if (combiner == Combiner::Welford) {
    // x - x carries an infinity or NaN into the squares.
    return {llvm::ConstantFP::get(x->getType(), 1), x, builder().CreateFSub(x, x)};
  }
  return {x};
}

Values Lowering::combine(Combiner combiner, DType dtype, const Values& a, const Values& b) {
  Builder& build = builder();
  const bool floats = is_float(dtype);
  int lanes = 1;
  for (const Values* state : {&a, &b}) lanes = std::max(lanes, lane_count((*state)[0]->getType()));
  const auto part = [&](const Values& state, std::size_t k) { return vector_of(state[k], lanes); };
  llvm::Value *x = part(a, 0), *y = part(b, 0);
  const auto less = [&](llvm::Value* p, llvm::Value* q) {
    if (floats) return build.CreateFCmpOLT(p, q);
    return is_signed_integer(dtype) ? build.CreateICmpSLT(p, q) : build.CreateICmpULT(p, q);
  };
  switch (combiner) {
    case Combiner::Sum:
      return {floats ? build.CreateFAdd(x, y) : build.CreateAdd(x, y)};
    case Combiner::Prod:
      return {floats ? build.CreateFMul(x, y) : build.CreateMul(x, y)};
    case Combiner::And:
      return {build.CreateAnd(x, y)};
    case Combiner::Or:
      return {build.CreateOr(x, y)};
    case Combiner::Min:
    case Combiner::Max: {
      const bool least = combiner == Combiner::Min;
      if (floats && lanes < strip_.lanes) {  // across lanes: short rather than fast
        return {
            build.CreateBinaryIntrinsic(least ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, x, y)};
      }
      llvm::Value* best = build.CreateSelect(least ? less(y, x) : less(x, y), y, x);
      if (!floats) return {best};
      // The instruction gives its second operand if both are zeros: combining both orders by and (or) gives
      // +0
      // (-0) if there is one. A NaN on either side makes the sum NaN.
      llvm::Value* other = build.CreateSelect(least ? less(x, y) : less(y, x), x, y);
      llvm::Type* bits = x->getType()->getWithNewType(build.getIntNTy(x->getType()->getScalarSizeInBits()));
      llvm::Value *p = build.CreateBitCast(best, bits), *q = build.CreateBitCast(other, bits);
      llvm::Value* both =
          build.CreateBitCast(least ? build.CreateOr(p, q) : build.CreateAnd(p, q), x->getType());
      return {build.CreateSelect(build.CreateFCmpUNO(x, y), build.CreateFAdd(x, y), both)};
    }
    case Combiner::ArgMax:
    case Combiner::ArgMin: {
      llvm::Value *at_x = part(a, 1), *at_y = part(b, 1);
      llvm::Value* better = combiner == Combiner::ArgMin ? less(y, x) : less(x, y);
      llvm::Value* equal = floats ? build.CreateFCmpOEQ(x, y) : build.CreateICmpEQ(x, y);
      if (floats) {
        llvm::Value *x_nan = build.CreateFCmpUNO(x, x), *y_nan = build.CreateFCmpUNO(y, y);
        better = build.CreateOr(better, build.CreateAnd(y_nan, build.CreateNot(x_nan)));
        equal = build.CreateOr(equal, build.CreateAnd(x_nan, y_nan));
      }
      better = build.CreateOr(better, build.CreateAnd(equal, build.CreateICmpSLT(at_y, at_x)));
      return {build.CreateSelect(better, y, x), build.CreateSelect(better, at_y, at_x)};
    }
    case Combiner::Welford: {
      llvm::Value* count = build.CreateFAdd(x, y);
      llvm::Value* zero = llvm::Constant::getNullValue(count->getType());
      // No elements on either side: any finite share.
      llvm::Value* share =
          build.CreateFDiv(y, build.CreateSelect(build.CreateFCmpOEQ(count, zero),
                                                 llvm::ConstantFP::get(count->getType(), 1), count));
      llvm::Value* delta = build.CreateFSub(part(b, 1), part(a, 1));
      llvm::Value* mean = build.CreateFAdd(part(a, 1), build.CreateFMul(delta, share));
      llvm::Value* between = build.CreateFMul(build.CreateFMul(delta, delta), build.CreateFMul(x, share));
      llvm::Value* squares = build.CreateFAdd(build.CreateFAdd(part(a, 2), part(b, 2)), between);
      // An empty side leaves the other as it is.
      llvm::Value* first = build.CreateFCmpOEQ(x, zero);
      return {count, build.CreateSelect(first, part(b, 1), mean),
              build.CreateSelect(first, part(b, 2), squares)};
    }
    case Combiner::LogSumExp:
      break;
  }
  throw_bug("logsumexp reached the lowering unexpanded");
}

Values Lowering::across_lanes(Combiner combiner, DType dtype, Values state) {
  for (int lanes = lane_count(state[0]->getType()); lanes > 1; lanes /= 2) {
    Values low, high;
    for (llvm::Value* value : state) {
      llvm::SmallVector<int, 32> first, second;
      for (int lane = 0; lane < lanes / 2; ++lane) {
        first.push_back(lane);
        second.push_back(lane + lanes / 2);
      }
      llvm::Value* low_half = builder().CreateShuffleVector(value, first);
      llvm::Value* high_half = builder().CreateShuffleVector(value, second);
      if (lanes == 2) {
        low_half = builder().CreateExtractElement(value, std::uint64_t{0});
        high_half = builder().CreateExtractElement(value, std::uint64_t{1});
      }
      low.push_back(low_half);
      high.push_back(high_half);
    }
    state = combine(combiner, dtype, low, high);
  }
  return state;
}

Values Lowering::finish(Combiner combiner, DType dtype, const Values& state) {
  Values results;
  for (std::size_t k = 0; k < state.size(); ++k) {
    llvm::Value* value = state[k];
    if (gives_position(combiner) && k == 1) {
      results.push_back(
          builder().CreateSExt(value, value->getType()->getWithNewType(builder().getInt64Ty())));
    } else {
      results.push_back(narrow(value, dtype));
    }
  }
  return results;
}

}  // namespace kiln::jit::cpu
