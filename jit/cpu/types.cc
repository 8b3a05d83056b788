#include "jit/cpu/types.h"

#include "ir/base/errors.h"

namespace kiln::jit::cpu {

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::I1:
      return llvm::Type::getInt1Ty(context);
    case DType::I8:
    case DType::U8:
      return llvm::Type::getInt8Ty(context);
    case DType::I16:
    case DType::U16:
    case DType::BF16:
      return llvm::Type::getInt16Ty(context);
    case DType::I32:
    case DType::U32:
      return llvm::Type::getInt32Ty(context);
    case DType::I64:
    case DType::U64:
      return llvm::Type::getInt64Ty(context);
    case DType::F16:
      return llvm::Type::getHalfTy(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    default:
      throw_caller(ErrorCode::Unsupported, "the x86 lowering does not compute in {}", name(dtype));
  }
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  return dtype == DType::I1 ? llvm::Type::getInt8Ty(context) : register_type(context, dtype);
}

std::int64_t byte_width(DType dtype) { return (bits(dtype) + 7) / 8; }

llvm::Type* with_lanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

llvm::Constant* constant_of(llvm::Type* type, DType dtype, std::uint64_t bits) {
  llvm::Type* scalar = type->getScalarType();
  llvm::Constant* value = nullptr;
  if (scalar->isIntegerTy()) {
    value = llvm::ConstantInt::get(scalar, llvm::APInt(64, bits).trunc(scalar->getIntegerBitWidth()));
  } else {
    const auto width = static_cast<unsigned>(kiln::bits(dtype));
    value = llvm::ConstantFP::get(
        scalar, llvm::APFloat(scalar->getFltSemantics(),
                              llvm::APInt(width, bits & (width == 64 ? ~0ull : (1ull << width) - 1))));
  }
  const int lanes = lane_count(type);
  return lanes == 1 ? value
                    : llvm::ConstantVector::getSplat(
                          llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), value);
}

}  // namespace kiln::jit::cpu
