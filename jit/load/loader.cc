#include "jit/load/loader.h"

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/Support/MemoryBuffer.h>

#include "ir/base/errors.h"

namespace kiln::jit {
namespace {

// Everything that generated code may call; an object that names another symbol is refused by the linker.
struct AllowedSymbol {
  const char* name;
  void* address;
};
const std::array<AllowedSymbol, 3> kAllowedSymbols = {{
    {"memcpy", reinterpret_cast<void*>(&std::memcpy)},
    {"memmove", reinterpret_cast<void*>(&std::memmove)},
    {"memset", reinterpret_cast<void*>(&std::memset)},
}};

// What ORC reported on this thread on the way to a failure; the failed lookup itself only says that it
// failed.
thread_local std::string reported;

Error load_failed(const std::string& symbol, llvm::Error error) {
  return Error(ErrorKind::Bug, ErrorCode::CompileFailed,
               fmt::format("cannot load kernel {}: {}{}{}", symbol, llvm::toString(std::move(error)),
                           reported.empty() ? "" : ": ", std::exchange(reported, {})));
}

// ORC for this process. Never destroyed: kernels may be unloaded by destructors of static objects.
class Linker {
 public:
  static Linker& instance() {
    static Linker* linker = new Linker;
    return *linker;
  }

  // A library of its own for each object: symbols of different loads cannot clash.
  llvm::Expected<llvm::orc::JITDylib*> add_library() {
    auto& library = session_.createBareJITDylib("kernel." + std::to_string(next_.fetch_add(1)));
    llvm::orc::SymbolMap symbols;
    for (const AllowedSymbol& allowed : kAllowedSymbols) {
      symbols[session_.intern(allowed.name)] = {llvm::orc::ExecutorAddr::fromPtr(allowed.address),
                                                llvm::JITSymbolFlags::Exported};
    }
    if (auto error = library.define(llvm::orc::absoluteSymbols(std::move(symbols)))) return error;
    return &library;
  }

  void remove_library(llvm::orc::JITDylib& library) {
    if (auto error = session_.removeJITDylib(library)) llvm::consumeError(std::move(error));
  }

  llvm::orc::ExecutionSession& session() { return session_; }
  llvm::orc::ObjectLinkingLayer& layer() { return layer_; }

 private:
  static std::unique_ptr<llvm::orc::ExecutorProcessControl> process_control() {
    // Linking runs on the thread that asks for it, not on threads of ORC's own.
    auto control = llvm::orc::SelfExecutorProcessControl::Create(
        nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>());
    if (!control) throw load_failed("(any)", control.takeError());
    return std::move(*control);
  }

  Linker() : session_(process_control()), layer_(session_) {
    session_.setErrorReporter([](llvm::Error error) { reported += llvm::toString(std::move(error)); });
  }

  llvm::orc::ExecutionSession session_;
  llvm::orc::ObjectLinkingLayer layer_;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace

Result<LoadedKernel> load(const Artifact& artifact) {
  try {
    reported.clear();
    Linker& linker = Linker::instance();
    auto library = linker.add_library();
    if (!library) return load_failed(artifact.symbol, library.takeError());
    // Unloads when the last copy of `code` goes, or at once on any failure below.
    std::shared_ptr<const void> code(*library, [](const void* handle) {
      Linker::instance().remove_library(*static_cast<llvm::orc::JITDylib*>(
          const_cast<void*>(handle)));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    });

    auto object = llvm::MemoryBuffer::getMemBufferCopy(
        llvm::StringRef(reinterpret_cast<const char*>(artifact.object.data()), artifact.object.size()),
        artifact.symbol);
    if (auto error = linker.layer().add(**library, std::move(object))) {
      return load_failed(artifact.symbol, std::move(error));
    }

    llvm::orc::SymbolLookupSet wanted;
    const std::array<std::string, 3> names = {artifact.symbol, artifact.symbol + "_grid",
                                              artifact.symbol + "_scratch"};
    for (const std::string& name : names) wanted.add(linker.session().intern(name));
    auto found = linker.session().lookup(llvm::orc::makeJITDylibSearchOrder(*library), std::move(wanted));
    if (!found) return load_failed(artifact.symbol, found.takeError());
    const auto address = [&](const std::string& name) {
      return (*found)[linker.session().intern(name)].getAddress();
    };

    LoadedKernel kernel;
    kernel.run = address(names[0]).toPtr<KernelFunction>();
    kernel.grid = address(names[1]).toPtr<GridFunction>();
    kernel.scratch = address(names[2]).toPtr<ScratchFunction>();
    kernel.code = std::move(code);
    return kernel;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::Environment, ErrorCode::OutOfMemory,
                 fmt::format("cannot load kernel {}: {}", artifact.symbol, error.what()));
  }
}

}  // namespace kiln::jit
