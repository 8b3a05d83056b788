#include "jit/cpu/transpose.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/code.h"
#include "jit/cpu/widen.h"

namespace kiln::jit::cpu {
namespace {

// Hides from instruction selection how a vector was made. It looks through chains of shuffles for better
// ones, at a cost that grows with the square of their length, and there are none.
llvm::Value* hidden(llvm::IRBuilderBase& builder, llvm::Value* vector) {
  const std::uint64_t bits = vector->getType()->getPrimitiveSizeInBits();
  if (bits % 32 != 0) return vector;
  auto* const floats = llvm::FixedVectorType::get(builder.getFloatTy(), static_cast<unsigned>(bits / 32));
  llvm::Value* const fenced = builder.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {floats},
                                                      {builder.CreateBitCast(vector, floats)});
  return builder.CreateBitCast(fenced, vector->getType());
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
        builder.CreateAlignedStore(rows[static_cast<std::size_t>(row)], address,
                                   llvm::Align(static_cast<std::uint64_t>(bits(to) / 8)));
      }
    });
  });
  builder.CreateRetVoid();
  return function;
}

}  // namespace

// Every shuffle is one instruction. Those within pieces of 128 bits interleave the elements of two rows,
// until each piece holds one column of as many rows as it has elements; then pieces are brought together, the
// even and the odd ones of two rows.
void transpose_registers(llvm::IRBuilderBase& builder, std::vector<llvm::Value*>& rows) {
  const std::size_t lanes = rows.size();
  const std::size_t piece = std::min<std::size_t>(lanes, 128 / rows[0]->getType()->getScalarSizeInBits());
  const std::size_t pieces = lanes / piece;
  llvm::SmallVector<int, 64> low, high, even, odd;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::size_t number = lane / piece, within = lane % piece;
    low.push_back(static_cast<int>(number * piece + within / 2 + within % 2 * lanes));
    high.push_back(low.back() + static_cast<int>(piece / 2));
    even.push_back(static_cast<int>(2 * number * piece + within));
    odd.push_back(even.back() + static_cast<int>(piece));
  }
  std::vector<llvm::Value*> next(lanes);
  for (std::size_t done = 1; done < piece; done *= 2) {
    for (std::size_t first = 0; first < lanes; first += piece) {
      for (std::size_t i = 0; i < piece / 2; ++i) {
        llvm::Value *const a = rows[first + i], *const b = rows[first + i + piece / 2];
        next[first + 2 * i] = hidden(builder, builder.CreateShuffleVector(a, b, low));
        next[first + 2 * i + 1] = hidden(builder, builder.CreateShuffleVector(a, b, high));
      }
    }
    rows = next;
  }
  for (std::size_t done = 1; done < pieces; done *= 2) {
    for (std::size_t column = 0; column < piece; ++column) {
      const auto row = [&](std::size_t number) { return column + number * piece; };
      for (std::size_t i = 0; i < pieces / 2; ++i) {
        llvm::Value *const a = rows[row(2 * i)], *const b = rows[row(2 * i + 1)];
        next[row(i)] = hidden(builder, builder.CreateShuffleVector(a, b, even));
        next[row(i + pieces / 2)] = hidden(builder, builder.CreateShuffleVector(a, b, odd));
      }
    }
    rows = next;
  }
}

void emit_transposed_copy(Code& code, const TransposedCopy& copy) {
  llvm::Module& module = *code.function()->getParent();
  code.builder().CreateCall(transpose_function(module, copy.from, copy.to, copy.lanes),
                            {copy.source, copy.column_pitch, copy.k, copy.columns, copy.target,
                             copy.target_pitch, copy.padded_columns});
}

}  // namespace kiln::jit::cpu
