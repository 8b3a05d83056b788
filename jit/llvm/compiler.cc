#include "jit/llvm/compiler.h"

#include <map>
#include <mutex>
#include <utility>

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "ir/base/errors.h"
#include "jit/llvm/shared_functions.h"

namespace kiln::jit {
namespace {

Error compile_failed(std::string reason) {
  return Error(ErrorKind::Bug, ErrorCode::CompileFailed, "the code generator failed: " + std::move(reason));
}

// LLVM would print and end the process; unwinding through its frames leaves the compiler unusable, so the
// catcher discards it.
[[noreturn]] void throw_fatal_error(void*, const char* reason, bool) { throw compile_failed(reason); }

void initialize_target_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(throw_fatal_error);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // Passes that cost a third of the compile time and gain nothing here. The lowering lays out addresses
    // itself: loop strength reduction would leave more values alive than there are registers, and code
    // generation preparation would sink addresses back into loops. It emits strips one after the other, an
    // order that needs few registers and that processors run out of order anyway: no second scheduler. What
    // does not fit into registers is scalars of outer loops, for which no splitting over regions is worth it.
    for (const auto& [name, value] : {std::pair{"disable-lsr", "true"},
                                      {"disable-cgp", "true"},
                                      {"enable-misched", "false"},
                                      {"grow-region-complexity-budget", "0"}}) {
      auto& options = llvm::cl::getRegisteredOptions();
      const auto option = options.find(name);
      require(option != options.end() && !option->second->addOccurrence(0, name, value),
              "LLVM takes no -{}={}", name, value);
    }
  });
}

// Keeps error diagnostics, which LLVM's own handler answers with exit(1), and sums up the register
// allocator's remarks: "regalloc" reports NumSpills and NumFoldedSpills of each function.
class Diagnostics final : public llvm::DiagnosticHandler {
 public:
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      if (error_.empty()) {
        llvm::raw_string_ostream stream(error_);
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info.print(printer);
      }
    } else if (const auto* remark = llvm::dyn_cast<llvm::DiagnosticInfoOptimizationBase>(&info)) {
      if (remark->getRemarkName() == "SpillReloadCopies") {
        for (const auto& argument : remark->getArgs()) {
          int count = 0;
          if ((argument.Key == "NumSpills" || argument.Key == "NumFoldedSpills") &&
              llvm::to_integer(argument.Val, count)) {
            spills_ += count;
          }
        }
      }
    }
    return true;
  }
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override { return pass == "regalloc"; }
  bool isAnalysisRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isPassedOptRemarkEnabled(llvm::StringRef) const override { return false; }
  bool isAnyRemarkEnabled() const override { return true; }

  void reset() {
    error_.clear();
    spills_ = 0;
  }
  const std::string& error() const { return error_; }
  int spills() const { return spills_; }

 private:
  std::string error_;
  int spills_ = 0;
};

const char* cpu_name(Isa isa) {
  switch (isa) {
    case Isa::X86_64_V3:
      return "x86-64-v3";
    case Isa::X86_64_V4:
      return "x86-64-v4";
  }
  throw_bug("unknown isa");
}

std::string feature_string(const Target& target) {
  std::string features;
  const auto add = [&](bool present, const char* feature) {
    if (present) features += std::string(features.empty() ? "+" : ",+") + feature;
  };
  add(target.avx512_bf16, "avx512bf16");
  add(target.avx512_vnni, "avx512vnni");
  add(target.amx_bf16 || target.amx_int8, "amx-tile");
  add(target.amx_bf16, "amx-bf16");
  add(target.amx_int8, "amx-int8");
  return features;
}

class Compiler {
 public:
  Compiler() {
    initialize_target_once();
    auto diagnostics = std::make_unique<Diagnostics>();
    diagnostics_ = diagnostics.get();
    context_.setDiagnosticHandler(std::move(diagnostics), /*RespectFilters=*/true);
    passes_.registerModuleAnalyses(module_analyses_);
    passes_.registerCGSCCAnalyses(cgscc_analyses_);
    passes_.registerFunctionAnalyses(function_analyses_);
    passes_.registerLoopAnalyses(loop_analyses_);
    passes_.crossRegisterProxies(loop_analyses_, function_analyses_, cgscc_analyses_, module_analyses_);
  }

  std::unique_ptr<llvm::Module> build(const Target& target, const ModuleBuilder& fill) {
    diagnostics_->reset();
    auto module = empty_module(target);
    fill(*module);
    std::string report;
    llvm::raw_string_ostream stream(report);
    if (llvm::verifyModule(*module, &stream)) throw compile_failed("invalid LLVM IR: " + report);
    optimize(*module);
    return module;
  }

  // Replaces functions that are shared by their code. Returns the register spills in them.
  int share_functions(llvm::Module& module, const Target& target) {
    int spills = 0;
    for (llvm::Function& function : llvm::make_early_inc_range(module)) {
      if (!function.hasFnAttribute(kSharedFunction)) continue;
      const std::string key = cpu_name(target.isa) + feature_string(target) + content_of(function);
      const auto& code = shared_code(key, [&] {
        llvm::ValueToValueMapTy unused;
        llvm::Function* const copy = llvm::CloneFunction(&function, unused);
        const auto alone = empty_module(target);
        move_function(*copy, *alone);
        copy->setLinkage(llvm::GlobalValue::ExternalLinkage);
        diagnostics_->reset();
        const llvm::SmallVector<char, 0> object = emit_object(*alone, target);
        return code_of(llvm::StringRef(object.data(), object.size()), diagnostics_->spills());
      });
      if (!code) continue;
      replace_body(function, *code);
      spills += code->spills;
    }
    diagnostics_->reset();
    return spills;
  }

  llvm::SmallVector<char, 0> emit_object(llvm::Module& module, const Target& target) {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    llvm::MCContext* mc_context = nullptr;
    if (target_machine(target).addPassesToEmitMC(passes, mc_context, stream, /*DisableVerify=*/true)) {
      throw compile_failed("the target cannot emit objects");
    }
    passes.run(module);
    check();
    return bytes;
  }

  std::string emit_assembly(llvm::Module& module, const Target& target) {
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (target_machine(target).addPassesToEmitFile(passes, stream, nullptr,
                                                   llvm::CodeGenFileType::AssemblyFile)) {
      throw compile_failed("the target cannot emit assembly");
    }
    passes.run(module);
    check();
    return std::string(text);
  }

  int spills() const { return diagnostics_->spills(); }

 private:
  std::unique_ptr<llvm::Module> empty_module(const Target& target) {
    llvm::TargetMachine& machine = target_machine(target);
    auto module = std::make_unique<llvm::Module>("kiln", context_);
    module->setTargetTriple(machine.getTargetTriple());
    module->setDataLayout(machine.createDataLayout());
    return module;
  }

  // The lowering emits final vector code; SROA turns its small register tiles into SSA values. Each block
  // costs in dozens of passes, so that those which only follow another are joined to it.
  void optimize(llvm::Module& module) {
    for (llvm::Function& function : module) {
      for (llvm::BasicBlock& block : llvm::make_early_inc_range(function)) {
        llvm::MergeBlockIntoPredecessor(&block);
      }
    }
    llvm::FunctionPassManager function_passes;
    function_passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    function_passes.addPass(llvm::EarlyCSEPass());
    for (llvm::Function& function : module) {
      if (!function.isDeclaration()) function_passes.run(function, function_analyses_);
    }
    function_analyses_.clear();
    module_analyses_.clear();
  }

  void check() const {
    if (!diagnostics_->error().empty()) throw compile_failed(diagnostics_->error());
  }

  llvm::TargetMachine& target_machine(const Target& target) {
    const std::string cpu = cpu_name(target.isa), features = feature_string(target);
    std::unique_ptr<llvm::TargetMachine>& machine = machines_[cpu + features];
    if (machine != nullptr) return *machine;
    const llvm::Triple triple("x86_64-unknown-linux-gnu");
    std::string error;
    const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (llvm_target == nullptr) throw compile_failed(error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    machine.reset(llvm_target->createTargetMachine(triple, cpu, features, options, llvm::Reloc::PIC_,
                                                   llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default,
                                                   /*JIT=*/true));
    if (machine == nullptr) throw compile_failed("no target machine");
    return *machine;
  }

  llvm::LLVMContext context_;
  Diagnostics* diagnostics_ = nullptr;                                    // owned by context_
  std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines_;  // by CPU and features
  llvm::LoopAnalysisManager loop_analyses_;
  llvm::FunctionAnalysisManager function_analyses_;
  llvm::CGSCCAnalysisManager cgscc_analyses_;
  llvm::ModuleAnalysisManager module_analyses_;
  llvm::PassBuilder passes_;
};

thread_local std::unique_ptr<Compiler> thread_compiler;

// Runs `use` with this thread's compiler; any exception becomes an Error and, unless it is a refusal raised
// before LLVM ran, costs the compiler.
template <typename T>
Result<T> with_compiler(const std::function<T(Compiler&)>& use) {
  try {
    if (thread_compiler == nullptr) thread_compiler = std::make_unique<Compiler>();
    return use(*thread_compiler);
  } catch (Error& error) {
    if (error.code() == ErrorCode::CompileFailed || error.kind() == ErrorKind::Bug) thread_compiler.reset();
    return std::move(error);
  } catch (const std::exception& error) {
    thread_compiler.reset();
    return compile_failed(error.what());
  }
}

std::int64_t text_bytes(const llvm::SmallVector<char, 0>& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kiln"));
  if (!file) throw compile_failed("unreadable object: " + llvm::toString(file.takeError()));
  std::int64_t total = 0;
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    if (section.isText()) total += static_cast<std::int64_t>(section.getSize());
  }
  return total;
}

}  // namespace

Result<ObjectCode> emit_object(const Target& target, const ModuleBuilder& build) {
  return with_compiler<ObjectCode>([&](Compiler& compiler) {
    const auto module = compiler.build(target, build);
    const int shared_spills = compiler.share_functions(*module, target);
    const llvm::SmallVector<char, 0> object = compiler.emit_object(*module, target);
    ObjectCode code;
    const auto* begin = reinterpret_cast<const std::byte*>(object.data());
    code.bytes.assign(begin, begin + object.size());
    code.code_bytes = text_bytes(object);
    code.spills = compiler.spills() + shared_spills;
    return code;
  });
}

Result<std::string> emit_llvm_ir(const Target& target, const ModuleBuilder& build) {
  return with_compiler<std::string>([&](Compiler& compiler) {
    const auto module = compiler.build(target, build);
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream, nullptr);
    return text;
  });
}

Result<std::string> emit_assembly(const Target& target, const ModuleBuilder& build) {
  return with_compiler<std::string>([&](Compiler& compiler) {
    const auto module = compiler.build(target, build);
    return compiler.emit_assembly(*module, target);
  });
}

Error provoke_codegen_failure() {
  Target target;
  target.isa = Isa::X86_64_V3;
  const auto result = emit_object(target, [](llvm::Module& module) {
    llvm::IRBuilder<> builder(module.getContext());
    auto* vector = llvm::FixedVectorType::get(builder.getFloatTy(), 16);
    auto* function = llvm::Function::Create(llvm::FunctionType::get(vector, {vector}, false),
                                            llvm::Function::ExternalLinkage, "unselectable", module);
    builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
    llvm::Value* x = function->getArg(0);
    builder.CreateRet(builder.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
        {x, x, x, llvm::ConstantInt::get(builder.getInt16Ty(), 0xffff), builder.getInt32(4)}));
  });
  require(!result, "a 512-bit instruction was selected for a target without it");
  return result.error();
}

}  // namespace kiln::jit
