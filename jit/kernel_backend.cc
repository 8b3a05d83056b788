// The real backend of KernelService: this folder's compiler and loader.
#include "jit/compile.h"
#include "jit/kernel_service.h"
#include "jit/load/loader.h"

namespace kiln::jit {
namespace {

class CompilerBackend : public KernelBackend {
 public:
  Result<Artifact> compile(const KernelRequest& request, const std::string& symbol) override {
    return jit::compile(request.kernel, request.schedule, request.target, symbol);
  }
  Result<LoadedKernel> load(const Artifact& artifact) override { return jit::load(artifact); }
};

}  // namespace

std::unique_ptr<KernelBackend> make_backend() { return std::make_unique<CompilerBackend>(); }

}  // namespace kiln::jit
