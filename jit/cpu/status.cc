// Errors of a running kernel: the first one is written to its status, and the kernel goes on.
#include <cstddef>

#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

static_assert(kMaxGridRank == tile::kMaxGridRank, "the ABI carries every grid that the language allows");
namespace {

// void report(status, code, detail, program ids...)
llvm::Function* report_function(llvm::Module& module) {
  if (llvm::Function* function = module.getFunction("report")) return function;
  llvm::IRBuilder<> b(module.getContext());
  std::vector<llvm::Type*> parameters{b.getPtrTy(), b.getInt32Ty(), b.getInt64Ty()};
  parameters.resize(3 + kMaxGridRank, b.getInt64Ty());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), parameters, false),
                                          llvm::Function::InternalLinkage, "report", module);
  function->setDoesNotThrow();
  function->addFnAttr(llvm::Attribute::Cold);
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::Value* status = function->getArg(0);
  const auto block = [&](const char* label) {
    return llvm::BasicBlock::Create(module.getContext(), label, function);
  };
  llvm::BasicBlock *entry = block("entry"), *first = block("first"), *done = block("done");
  b.SetInsertPoint(entry);
  llvm::Value* exchanged =
      b.CreateAtomicCmpXchg(status, b.getInt32(0), function->getArg(1), llvm::Align(4),
                            llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
  b.CreateCondBr(b.CreateExtractValue(exchanged, 1), first, done);
  b.SetInsertPoint(first);
  const auto put = [&](std::size_t offset, llvm::Value* value) {
    b.CreateStore(value, b.CreateConstGEP1_64(b.getInt8Ty(), status, offset));
  };
  put(offsetof(KernelStatus, detail), function->getArg(2));
  for (unsigned k = 0; k < kMaxGridRank; ++k) {
    put(offsetof(KernelStatus, program) + k * sizeof(std::int64_t), function->getArg(3 + k));
  }
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return function;
}

}  // namespace

void Lowering::report(llvm::Value* bad, StatusCode code, llvm::Value* detail) {
  if (status_ == nullptr) return;
  code_.unlikely(any_lane(bad), [&] {
    if (detail == nullptr) {
      detail = code_.index(0);
    } else if (const int lanes = lane_count(bad->getType()); lane_count(detail->getType()) > 1) {
      llvm::Value* bits = builder().CreateBitCast(bad, builder().getIntNTy(static_cast<unsigned>(lanes)));
      llvm::Value* first = builder().CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, builder().getTrue());
      detail =
          builder().CreateExtractElement(detail, builder().CreateZExtOrTrunc(first, builder().getInt64Ty()));
    }
    Values arguments{status_, builder().getInt32(static_cast<std::uint32_t>(code)), detail};
    arguments.insert(arguments.end(), program_ids_.begin(), program_ids_.end());
    arguments.resize(3 + kMaxGridRank, code_.index(0));
    builder().CreateCall(report_function(*code_.function()->getParent()), arguments);
  });
}

llvm::Value* Lowering::any_lane(llvm::Value* mask) {
  return mask->getType()->isVectorTy() ? builder().CreateOrReduce(mask) : mask;
}

}  // namespace kiln::jit::cpu
