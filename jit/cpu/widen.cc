#include "jit/cpu/widen.h"

#include "ir/base/errors.h"

namespace kiln::jit::cpu {

bool widens(DType from, DType to) {
  if (from == to) return true;
  if (is_float(to)) return is_float(from) && bits(from) >= 16 && bits(from) < bits(to);
  return (from == DType::I8 || from == DType::U8) && is_integer(to) && bits(to) >= 32;
}

llvm::Type* memory_element(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::F16:
      return llvm::Type::getHalfTy(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    default:
      return llvm::Type::getIntNTy(context, static_cast<unsigned>(bits(dtype)));
  }
}

llvm::Value* widen(llvm::IRBuilderBase& builder, llvm::Value* value, DType from, DType to) {
  if (from == to) return value;
  require(widens(from, to), "a dot cannot widen {} to {}", name(from), name(to));
  const auto shaped = [&](llvm::Type* element) -> llvm::Type* {
    const auto* const vector = llvm::dyn_cast<llvm::VectorType>(value->getType());
    return vector ? llvm::VectorType::get(element, vector->getElementCount()) : element;
  };
  llvm::Type* const result = shaped(memory_element(builder.getContext(), to));
  if (from == DType::BF16) {  // the upper half of an f32
    llvm::Value* const wide = builder.CreateShl(builder.CreateZExt(value, shaped(builder.getInt32Ty())), 16);
    llvm::Value* const f32 = builder.CreateBitCast(wide, shaped(builder.getFloatTy()));
    return to == DType::F32 ? f32 : builder.CreateFPExt(f32, result);
  }
  if (is_float(from)) return builder.CreateFPExt(value, result);
  return is_signed_integer(from) ? builder.CreateSExt(value, result) : builder.CreateZExt(value, result);
}

}  // namespace kiln::jit::cpu
