#include "jit/cpu/transpose.h"

#include <vector>

#include <fmt/format.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/code.h"
#include "jit/cpu/widen.h"

namespace kiln::jit::cpu {
namespace {

std::size_t to_unsigned(int value) { return static_cast<std::size_t>(value); }

// A square of registers turned by exchanging halves of pairs, then quarters, and so on.
void transpose_registers(llvm::IRBuilderBase& builder, std::vector<llvm::Value*>& rows) {
  const int lanes = static_cast<int>(rows.size());
  for (int distance = lanes / 2; distance >= 1; distance /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool from_second = (lane & distance) != 0;
      low.push_back(from_second ? lanes + lane - distance : lane);
      high.push_back(from_second ? lanes + lane : lane + distance);
    }
    for (int row = 0; row < lanes; ++row) {
      if (row & distance) continue;
      llvm::Value*& first = rows[to_unsigned(row)];
      llvm::Value*& second = rows[to_unsigned(row + distance)];
      llvm::Value* const upper = builder.CreateShuffleVector(first, second, low);
      second = builder.CreateShuffleVector(first, second, high);
      first = upper;
    }
  }
}

// void(source, column_pitch, k, columns, target, target_pitch, padded_columns)
llvm::Function* transpose_function(llvm::Module& module, DType from, DType to, int lanes) {
  const std::string symbol = fmt::format("transpose_{}_{}_{}", name(from), name(to), lanes);
  if (llvm::Function* const existing = module.getFunction(symbol)) return existing;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* const pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* const index = llvm::Type::getInt64Ty(context);
  llvm::Function* const function = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                              {pointer, index, index, index, pointer, index, index}, false),
      llvm::GlobalValue::InternalLinkage, symbol, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value* const source = function->getArg(0);
  llvm::Value* const column_pitch = function->getArg(1);
  llvm::Value* const k = function->getArg(2);
  llvm::Value* const columns = function->getArg(3);
  llvm::Value* const target = function->getArg(4);
  llvm::Value* const target_pitch = function->getArg(5);
  llvm::Value* const padded_columns = function->getArg(6);

  Code code(function);
  Builder& builder = code.builder();
  const auto offset = [&](llvm::Value* base, llvm::Value* bytes) {
    return builder.CreateGEP(builder.getInt8Ty(), base, bytes);
  };
  llvm::Type* const element = memory_element(context, from);
  auto* const loaded = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  const llvm::Align alignment(static_cast<std::uint64_t>(bits(from) / 8));
  llvm::SmallVector<llvm::Constant*, 16> numbers;
  for (int lane = 0; lane < lanes; ++lane) numbers.push_back(llvm::ConstantInt::getSigned(index, lane));
  llvm::Constant* const lane_numbers = llvm::ConstantVector::get(numbers);

  code.loop(code.index(0), padded_columns, code.index(lanes), [&](llvm::Value* first_column) {
    code.loop(code.index(0), k, code.index(lanes), [&](llvm::Value* first_k) {
      llvm::Value* const rest = code.sub(k, first_k);
      llvm::Value* const in_k =
          builder.CreateICmpSLT(lane_numbers, builder.CreateVectorSplat(static_cast<unsigned>(lanes), rest));
      std::vector<llvm::Value*> rows;
      for (int row = 0; row < lanes; ++row) {
        llvm::Value* const column = code.add(first_column, code.index(row));
        llvm::Value* const live = builder.CreateICmpSLT(column, columns);
        llvm::Value* const mask =
            builder.CreateAnd(in_k, builder.CreateVectorSplat(static_cast<unsigned>(lanes), live));
        // A masked load of no lanes from a page that is not there reads nothing, but takes hundreds of
        // cycles.
        llvm::Value* const near = code.select(live, column, code.index(0));
        llvm::Value* const address =
            builder.CreateGEP(element, offset(source, code.mul(near, column_pitch)), first_k);
        llvm::Value* const value =
            builder.CreateMaskedLoad(loaded, address, alignment, mask, llvm::Constant::getNullValue(loaded));
        rows.push_back(widen(builder, value, from, to));
      }
      transpose_registers(builder, rows);
      for (int row = 0; row < lanes; ++row) {
        llvm::Value* const k_row = code.add(first_k, code.index(row));
        llvm::Value* const address = builder.CreateGEP(
            memory_element(context, to), offset(target, code.mul(k_row, target_pitch)), first_column);
        builder.CreateAlignedStore(rows[to_unsigned(row)], address,
                                   llvm::Align(static_cast<std::uint64_t>(bits(to) / 8)));
      }
    });
  });
  builder.CreateRetVoid();
  return function;
}

}  // namespace

void emit_transposed_copy(Code& code, const TransposedCopy& copy) {
  llvm::Module& module = *code.function()->getParent();
  code.builder().CreateCall(transpose_function(module, copy.from, copy.to, copy.lanes),
                            {copy.source, copy.column_pitch, copy.k, copy.columns, copy.target,
                             copy.target_pitch, copy.padded_columns});
}

}  // namespace kiln::jit::cpu
