// Conversions between dtypes, with the meaning that ir/tile/primitives.h gives them: floats to integers
// truncate and saturate, NaN gives 0; integers wrap; every rounding is to nearest even, and there is one.
#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {
namespace {

llvm::Type* shaped(llvm::Value* like, llvm::Type* scalar) { return like->getType()->getWithNewType(scalar); }
llvm::Constant* bits_like(llvm::Value* like, std::uint64_t value) {
  return llvm::ConstantInt::get(like->getType(), value);
}

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// f64 -> f32 rounded to odd: towards zero, the last bit set if anything was lost. A narrower format then
// rounds correctly from it.
llvm::Value* round_to_odd(Builder& b, llvm::Value* x) {
  llvm::Value* nearest = b.CreateFPTrunc(x, shaped(x, b.getFloatTy()));
  llvm::Value* back = b.CreateFPExt(nearest, x->getType());
  llvm::Value* bits = b.CreateBitCast(nearest, shaped(x, b.getInt32Ty()));
  llvm::Value* beyond = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                        b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
  llvm::Value* inward = b.CreateSelect(beyond, b.CreateSub(bits, bits_like(bits, 1)), bits);
  llvm::Value* odd = b.CreateOr(inward, bits_like(bits, 1));
  llvm::Value* inexact = b.CreateFCmpONE(back, x);
  return b.CreateBitCast(b.CreateSelect(inexact, odd, bits), nearest->getType());
}

}  // namespace

llvm::Value* Lowering::widen(llvm::Value* value, DType dtype) {
  Builder& b = builder();
  if (dtype == DType::F16) return b.CreateFPExt(value, shaped(value, b.getFloatTy()));
  if (dtype == DType::BF16) {
    llvm::Value* bits = b.CreateZExt(value, shaped(value, b.getInt32Ty()));
    return b.CreateBitCast(b.CreateShl(bits, bits_like(bits, 16)), shaped(value, b.getFloatTy()));
  }
  return value;
}

llvm::Value* Lowering::narrow(llvm::Value* value, DType dtype) {
  Builder& b = builder();
  if (dtype == DType::F16) return b.CreateFPTrunc(value, shaped(value, b.getHalfTy()));
  if (dtype == DType::BF16) {
    // Half of the last kept bit's weight, less one if that bit is even, carries into it. NaN stays NaN.
    llvm::Value* bits = b.CreateBitCast(value, shaped(value, b.getInt32Ty()));
    llvm::Value* last = b.CreateAnd(b.CreateLShr(bits, bits_like(bits, 16)), bits_like(bits, 1));
    llvm::Value* rounded = b.CreateAdd(b.CreateAdd(bits, bits_like(bits, 0x7fff)), last);
    llvm::Value* quiet = b.CreateOr(bits, bits_like(bits, 0x400000));
    llvm::Value* chosen = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
    return b.CreateTrunc(b.CreateLShr(chosen, bits_like(chosen, 16)), shaped(value, b.getInt16Ty()));
  }
  return value;
}

llvm::Value* Lowering::narrow_from_double(llvm::Value* value, DType dtype) {
  return narrow(round_to_odd(builder(), value), dtype);
}

llvm::Value* Lowering::cast(llvm::Value* value, DType from, DType to) {
  Builder& b = builder();
  if (from == to) return value;
  llvm::Type* type = shaped(value, register_type(code_.context(), to));
  const bool from_float = is_float(from), to_float = is_float(to);
  if (to == DType::I1) {
    llvm::Value* x = widen(value, from);
    llvm::Constant* zero = llvm::Constant::getNullValue(x->getType());
    return from_float ? b.CreateFCmpUNE(x, zero) : b.CreateICmpNE(x, zero);
  }
  if (from == DType::I1) {
    if (!to_float) return b.CreateZExt(value, type);
    llvm::Type* wide = is_half(to) ? shaped(value, b.getFloatTy()) : type;
    return narrow(b.CreateUIToFP(value, wide), to);
  }
  if (from_float && to_float) {
    if (from == DType::F64 && is_half(to)) return narrow_from_double(value, to);
    llvm::Value* x = widen(value, from);
    if (is_half(to)) return narrow(x, to);
    return x->getType() == type ? x : to == DType::F64 ? b.CreateFPExt(x, type) : b.CreateFPTrunc(x, type);
  }
  if (from_float) {
    llvm::Value* x = widen(value, from);
    const auto convert = is_signed_integer(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b.CreateIntrinsic(convert, {type, x->getType()}, {x});
  }
  if (to_float) {
    if (!is_half(to))
      return is_signed_integer(from) ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
    llvm::Type* wide = shaped(value, b.getDoubleTy());
    llvm::Value* x = is_signed_integer(from) ? b.CreateSIToFP(value, wide) : b.CreateUIToFP(value, wide);
    if (bits(from) < 64) return narrow_from_double(x, to);
    // f64 drops the low 11 bits of a large number: a sticky bit goes on in their place.
    llvm::Value* negative = is_signed_integer(from)
                                ? b.CreateICmpSLT(value, llvm::Constant::getNullValue(value->getType()))
                                : llvm::Constant::getNullValue(shaped(value, b.getInt1Ty()));
    llvm::Value* magnitude = b.CreateSelect(negative, b.CreateNeg(value), value);
    llvm::Value* dropped = b.CreateAnd(magnitude, bits_like(magnitude, 0x7ff));
    llvm::Value* kept = b.CreateAnd(magnitude, bits_like(magnitude, ~0x7ffull));
    llvm::Value* inexact = b.CreateAnd(b.CreateICmpUGE(magnitude, bits_like(magnitude, 1ull << 53)),
                                       b.CreateICmpNE(dropped, bits_like(dropped, 0)));
    llvm::Value* sticky = b.CreateSelect(inexact, b.CreateOr(kept, bits_like(kept, 0x800)), magnitude);
    llvm::Value* exact = b.CreateUIToFP(sticky, wide);
    return narrow_from_double(b.CreateSelect(negative, b.CreateFNeg(exact), exact), to);
  }
  return is_signed_integer(from) ? b.CreateSExtOrTrunc(value, type) : b.CreateZExtOrTrunc(value, type);
}

}  // namespace kiln::jit::cpu
