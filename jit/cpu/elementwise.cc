// The elementwise primitives, with the meaning that ir/tile/primitives.h gives them: one line each. Operands
// are vectors or scalars of one type. No fast-math flags anywhere: results are bit-exact.
#include <llvm/IR/IntrinsicsX86.h>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Function;

namespace {

llvm::Constant* zero(llvm::Value* like) { return llvm::Constant::getNullValue(like->getType()); }
llvm::Constant* ones(llvm::Value* like) { return llvm::Constant::getAllOnesValue(like->getType()); }
llvm::Constant* integer(llvm::Value* like, std::int64_t value) {
  return llvm::ConstantInt::getSigned(like->getType(), value);
}
llvm::Constant* number(llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}
llvm::Type* same_shape(llvm::Value* like, llvm::Type* scalar) {
  return like->getType()->getWithNewType(scalar);
}

// Everything that a primitive needs at hand.
struct Site {
  Lowering& lowering;
  Builder& b;
  DType dtype;

  bool is_signed() const { return is_signed_integer(dtype); }
  unsigned width(llvm::Value* x) const { return x->getType()->getScalarSizeInBits(); }
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* x) const { return b.CreateUnaryIntrinsic(id, x); }
  llvm::Value* binary(llvm::Intrinsic::ID id, llvm::Value* x, llvm::Value* y) const {
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  llvm::Value* less(llvm::Value* x, llvm::Value* y) const {
    if (x->getType()->isFPOrFPVectorTy()) return b.CreateFCmpOLT(x, y);
    return is_signed() ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
  }
  llvm::Value* is_nan(llvm::Value* x) const { return b.CreateFCmpUNO(x, x); }
};

llvm::Value* sign(const Site& s, llvm::Value* x) {
  if (x->getType()->isFPOrFPVectorTy()) {
    llvm::Value* one = s.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, number(x, 1), x);
    llvm::Value* other = s.b.CreateSelect(s.is_nan(x), x, zero(x));
    return s.b.CreateSelect(s.b.CreateFCmpONE(x, zero(x)), one, other);
  }
  llvm::Value* positive = s.b.CreateZExt(s.less(zero(x), x), x->getType());
  return s.is_signed() ? s.b.CreateSub(positive, s.b.CreateZExt(s.less(x, zero(x)), x->getType())) : positive;
}

// x / y or x % y of integers. A zero divisor in an active lane sets the status; the instruction itself, which
// would trap on it and on minimum / -1, divides by 1 instead.
llvm::Value* divide_integers(const Site& s, llvm::Value* x, llvm::Value* y, bool remainder) {
  llvm::Value* by_zero = s.b.CreateICmpEQ(y, zero(y));
  llvm::Value* reported = by_zero;
  if (s.lowering.strip().active != nullptr && lane_count(by_zero->getType()) > 1) {
    reported = s.b.CreateAnd(by_zero, s.lowering.strip().active);
  }
  s.lowering.report(reported, StatusCode::DivisionByZero, nullptr);
  llvm::Value* unsafe = by_zero;
  llvm::Value* minus_one = nullptr;
  if (s.is_signed()) {
    minus_one = s.b.CreateICmpEQ(y, ones(y));
    unsafe = s.b.CreateOr(by_zero, minus_one);
  }
  llvm::Value* divisor = s.b.CreateSelect(unsafe, integer(y, 1), y);
  if (remainder) return s.is_signed() ? s.b.CreateSRem(x, divisor) : s.b.CreateURem(x, divisor);
  llvm::Value* quotient = s.is_signed() ? s.b.CreateSDiv(x, divisor) : s.b.CreateUDiv(x, divisor);
  return minus_one == nullptr ? quotient : s.b.CreateSelect(minus_one, s.b.CreateNeg(x), quotient);
}

// fmod of two floats, exactly: the function below, once for each lane.
llvm::Function* fmod_function(llvm::Module& module, llvm::Type* type) {
  const std::string name = type->isFloatTy() ? "fmod_f32" : "fmod_f64";
  if (llvm::Function* function = module.getFunction(name)) return function;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->setDoesNotThrow();
  llvm::IRBuilder<> b(module.getContext());
  const auto block = [&](const char* label) {
    return llvm::BasicBlock::Create(module.getContext(), label, function);
  };
  llvm::BasicBlock *entry = block("entry"), *special = block("special"), *scale = block("scale"),
                   *loop = block("loop"), *done = block("done");
  // |x| mod |y| by subtracting the largest y * 2^n that fits, for n downwards. Each step is exact: the
  // multiples are powers of two times y, and the differences are representable.
  llvm::Value *x = function->getArg(0), *y = function->getArg(1);
  b.SetInsertPoint(entry);
  llvm::Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Value* divisor = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  llvm::Value* infinity = llvm::ConstantFP::getInfinity(type);
  llvm::Value* valid = b.CreateAnd(b.CreateFCmpOLT(magnitude, infinity),
                                   b.CreateFCmpOGT(divisor, llvm::ConstantFP::get(type, 0)));
  llvm::Value* larger = b.CreateFCmpOGE(magnitude, divisor);
  b.CreateCondBr(b.CreateAnd(valid, larger), scale, special);

  b.SetInsertPoint(special);  // x itself if |x| < |y|, else NaN (y NaN, y zero, x infinite or NaN)
  llvm::Value* smaller = b.CreateAnd(valid, b.CreateFCmpOLT(magnitude, divisor));
  b.CreateRet(b.CreateSelect(smaller, x, llvm::ConstantFP::getNaN(type)));

  // Double the divisor while it stays at most |x|; half of it is the test, so that nothing overflows.
  b.SetInsertPoint(scale);
  llvm::PHINode* multiple = b.CreatePHI(type, 2);
  multiple->addIncoming(divisor, entry);
  llvm::Value* half = b.CreateFMul(magnitude, llvm::ConstantFP::get(type, 0.5));
  llvm::Value* doubled = b.CreateFAdd(multiple, multiple);
  multiple->addIncoming(doubled, scale);
  b.CreateCondBr(b.CreateFCmpOLE(multiple, half), scale, loop);

  b.SetInsertPoint(loop);
  llvm::PHINode* rest = b.CreatePHI(type, 2);
  llvm::PHINode* step = b.CreatePHI(type, 2);
  rest->addIncoming(magnitude, scale);
  step->addIncoming(multiple, scale);
  llvm::Value* next = b.CreateSelect(b.CreateFCmpOGE(rest, step), b.CreateFSub(rest, step), rest);
  rest->addIncoming(next, loop);
  step->addIncoming(b.CreateFMul(step, llvm::ConstantFP::get(type, 0.5)), loop);
  b.CreateCondBr(b.CreateFCmpOGT(step, divisor), loop, done);

  b.SetInsertPoint(done);
  b.CreateRet(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, next, x));
  return function;
}

llvm::Value* remainder(const Site& s, llvm::Value* x, llvm::Value* y) {
  if (!x->getType()->isFPOrFPVectorTy()) return divide_integers(s, x, y, true);
  llvm::Function* fmod = fmod_function(*s.b.GetInsertBlock()->getModule(), x->getType()->getScalarType());
  const int lanes = lane_count(x->getType());
  if (lanes == 1) return s.b.CreateCall(fmod, {x, y});
  llvm::Value* result = llvm::PoisonValue::get(x->getType());
  for (int lane = 0; lane < lanes; ++lane) {
    const auto at = static_cast<std::uint64_t>(lane);
    llvm::Value* one =
        s.b.CreateCall(fmod, {s.b.CreateExtractElement(x, at), s.b.CreateExtractElement(y, at)});
    result = s.b.CreateInsertElement(result, one, at);
  }
  return result;
}

llvm::Value* floor_modulo(const Site& s, llvm::Value* x, llvm::Value* y) {
  llvm::Value* r = remainder(s, x, y);
  if (x->getType()->isFPOrFPVectorTy()) {
    llvm::Value* differs = s.b.CreateXor(s.b.CreateFCmpOLT(r, zero(r)), s.b.CreateFCmpOLT(y, zero(y)));
    llvm::Value* moved =
        s.b.CreateSelect(s.b.CreateAnd(differs, s.b.CreateFCmpORD(r, r)), s.b.CreateFAdd(r, y), r);
    llvm::Value* signed_zero = s.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, zero(r), y);
    return s.b.CreateSelect(s.b.CreateFCmpOEQ(r, zero(r)), signed_zero, moved);
  }
  if (!s.is_signed()) return r;
  llvm::Value* differs = s.b.CreateICmpSLT(s.b.CreateXor(r, y), zero(r));
  return s.b.CreateSelect(s.b.CreateAnd(differs, s.b.CreateICmpNE(r, zero(r))), s.b.CreateAdd(r, y), r);
}

llvm::Value* shift(const Site& s, llvm::Value* x, llvm::Value* count, bool left) {
  llvm::Value* inside = s.b.CreateICmpULT(count, integer(count, s.width(count)));
  llvm::Value* safe = s.b.CreateSelect(inside, count, zero(count));
  if (left) return s.b.CreateSelect(inside, s.b.CreateShl(x, safe), zero(x));
  if (!s.is_signed()) return s.b.CreateSelect(inside, s.b.CreateLShr(x, safe), zero(x));
  return s.b.CreateAShr(x, s.b.CreateSelect(inside, count, integer(count, s.width(count) - 1)));
}

// x * 2^n with one rounding for any n. `x` is float or double.
llvm::Value* scale_by_power(const Site& s, llvm::Value* x, llvm::Value* n) {
  const int lanes = lane_count(x->getType());
  const bool single = x->getType()->getScalarType()->isFloatTy();
  if (s.lowering.target().isa == Isa::X86_64_V4 && lanes * (single ? 4 : 8) == 64) {
    // vscalef rounds once and saturates for any exponent, integers being floats exactly or far out of range.
    llvm::Value* power = s.b.CreateSIToFP(n, x->getType());
    return s.b.CreateIntrinsic(
        single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
               : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512,
        {},
        {x, power, x, llvm::ConstantInt::getAllOnesValue(s.b.getIntNTy(static_cast<unsigned>(lanes))),
         s.b.getInt32(4)});
  }
  const auto clamp = [&](llvm::Value* value, std::int64_t low, std::int64_t high) {
    return s.binary(llvm::Intrinsic::smin, s.binary(llvm::Intrinsic::smax, value, integer(value, low)),
                    integer(value, high));
  };
  const auto power_of_two = [&](llvm::Value* exponent, std::int64_t bias, std::int64_t mantissa) {
    llvm::Value* bits =
        s.b.CreateShl(s.b.CreateAdd(exponent, integer(exponent, bias)), integer(exponent, mantissa));
    return s.b.CreateBitCast(bits, x->getType());
  };
  const std::int64_t bias = single ? 127 : 1023, mantissa = single ? 23 : 52;
  // Three factors; all but the last keep the product exact. The last takes what it can of the exponent, so
  // that before it the product is normal, unless the result is 0 or infinite anyway.
  llvm::Value* factors[3];
  llvm::Value* rest = n;
  for (llvm::Value*& factor : factors) {
    llvm::Value* part = clamp(rest, 1 - bias, bias);
    rest = s.b.CreateSub(rest, part);
    factor = power_of_two(part, bias, mantissa);
  }
  return s.b.CreateFMul(s.b.CreateFMul(s.b.CreateFMul(x, factors[2]), factors[1]), factors[0]);
}

llvm::Value* compare(const Site& s, llvm::CmpInst::Predicate floats, llvm::CmpInst::Predicate signed_integers,
                     llvm::CmpInst::Predicate others, llvm::Value* x, llvm::Value* y) {
  if (x->getType()->isFPOrFPVectorTy()) return s.b.CreateFCmp(floats, x, y);
  return s.b.CreateICmp(s.is_signed() ? signed_integers : others, x, y);
}

llvm::Value* extreme(const Site& s, Function function, llvm::Value* x, llvm::Value* y) {
  const bool least = function == Function::Min || function == Function::MinNum;
  if (!x->getType()->isFPOrFPVectorTy()) {
    return s.b.CreateSelect(least ? s.less(x, y) : s.less(y, x), x, y);
  }
  llvm::Value* result = s.binary(least ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, x, y);
  if (function == Function::Min || function == Function::Max) return result;
  result = s.b.CreateSelect(s.is_nan(x), y, result);
  return s.b.CreateSelect(s.is_nan(y), x, result);
}

}  // namespace

llvm::Value* Lowering::elementwise(Function function, DType dtype, std::span<llvm::Value* const> operands) {
  using llvm::CmpInst;
  using llvm::Intrinsic::ID;
  const Site s{*this, builder(), dtype};
  Builder& b = builder();
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  // What moves bits without computing needs no conversion of the 16-bit floats.
  if (function == Function::Select) return b.CreateSelect(operands[0], operands[1], operands[2]);
  if (half && function == Function::Fma) {
    // Products are exact in f64; the sum is rounded to odd there, so that the last rounding is the only one.
    llvm::Type* wide = same_shape(operands[0], b.getDoubleTy());
    Values v;
    for (llvm::Value* operand : operands) v.push_back(b.CreateFPExt(widen(operand, dtype), wide));
    llvm::Value* product = b.CreateFMul(v[0], v[1]);
    llvm::Value* sum = b.CreateFAdd(product, v[2]);
    llvm::Value* from_addend = b.CreateFSub(sum, product);
    llvm::Value* error =
        b.CreateFAdd(b.CreateFSub(product, b.CreateFSub(sum, from_addend)), b.CreateFSub(v[2], from_addend));
    llvm::Value* bits = b.CreateBitCast(sum, same_shape(sum, b.getInt64Ty()));
    llvm::Value* inexact = b.CreateFCmpONE(error, zero(error));
    llvm::Value* even = b.CreateICmpEQ(b.CreateAnd(bits, integer(bits, 1)), zero(bits));
    llvm::Value* outward =
        b.CreateICmpEQ(b.CreateFCmpOGT(error, zero(error)), b.CreateFCmpOGT(sum, zero(sum)));
    llvm::Value* odd = b.CreateAdd(bits, b.CreateSelect(outward, integer(bits, 1), integer(bits, -1)));
    llvm::Value* rounded = b.CreateSelect(b.CreateAnd(inexact, even), odd, bits);
    return narrow_from_double(b.CreateBitCast(rounded, sum->getType()), dtype);
  }
  llvm::Value* x = widen(operands[0], dtype);
  llvm::Value* y =
      operands.size() > 1 ? (function == Function::Ldexp ? operands[1] : widen(operands[1], dtype)) : nullptr;
  const bool floats = x->getType()->isFPOrFPVectorTy();
  const auto result = [&]() -> llvm::Value* {
    switch (function) {
      case Function::Neg:
        return floats ? b.CreateFNeg(x) : b.CreateNeg(x);
      case Function::Abs:
        if (floats) return s.unary(llvm::Intrinsic::fabs, x);
        return s.is_signed() ? b.CreateSelect(b.CreateICmpSLT(x, zero(x)), b.CreateNeg(x), x) : x;
      case Function::Sign:
        return sign(s, x);
      case Function::Floor:
        return s.unary(llvm::Intrinsic::floor, x);
      case Function::Ceil:
        return s.unary(llvm::Intrinsic::ceil, x);
      case Function::Round:
        return s.unary(llvm::Intrinsic::roundeven, x);
      case Function::Trunc:
        return s.unary(llvm::Intrinsic::trunc, x);
      case Function::Sqrt:
        return s.unary(llvm::Intrinsic::sqrt, x);
      case Function::Not:
        return b.CreateNot(x);
      case Function::IsNan:
        return s.is_nan(x);
      case Function::Add:
        return floats ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
      case Function::Sub:
        return floats ? b.CreateFSub(x, y) : b.CreateSub(x, y);
      case Function::Mul:
        return floats ? b.CreateFMul(x, y) : b.CreateMul(x, y);
      case Function::Div:
        return floats ? b.CreateFDiv(x, y) : divide_integers(s, x, y, false);
      case Function::Rem:
        return remainder(s, x, y);
      case Function::FloorMod:
        return floor_modulo(s, x, y);
      case Function::Min:
      case Function::Max:
      case Function::MinNum:
      case Function::MaxNum:
        return extreme(s, function, x, y);
      case Function::Ldexp:
        return scale_by_power(s, x, y);
      case Function::And:
        return b.CreateAnd(x, y);
      case Function::Or:
        return b.CreateOr(x, y);
      case Function::Xor:
        return b.CreateXor(x, y);
      case Function::Shl:
        return shift(s, x, y, true);
      case Function::Shr:
        return shift(s, x, y, false);
      case Function::Eq:
        return compare(s, CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ, x, y);
      case Function::Ne:
        return compare(s, CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE, x, y);
      case Function::Lt:
        return compare(s, CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT, x, y);
      case Function::Le:
        return compare(s, CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE, x, y);
      case Function::Gt:
        return compare(s, CmpInst::FCMP_OGT, CmpInst::ICMP_SGT, CmpInst::ICMP_UGT, x, y);
      case Function::Ge:
        return compare(s, CmpInst::FCMP_OGE, CmpInst::ICMP_SGE, CmpInst::ICMP_UGE, x, y);
      case Function::Fma:
        return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, operands[2]});
      case Function::Select:
        return nullptr;  // above
#define KILN_FUNCTION(enumerator, name, arity, ulp) case Function::enumerator:
#include "ir/tile/elementwise.def"
        throw_bug("function {} reached the lowering unexpanded", tile::name(function));
    }
    throw_bug("unknown function");
  }();
  return half && result->getType()->isFPOrFPVectorTy() ? narrow(result, dtype) : result;
}

}  // namespace kiln::jit::cpu
