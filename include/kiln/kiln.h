// Kiln: loads an ONNX model with dynamic dimensions and runs it on kernels generated for this machine.
//
//   kiln::Session session = kiln::Session::load("model.onnx");
//   std::vector<kiln::Tensor> outputs = session.run({{"x", kiln::Tensor::view(kiln::DType::F32, {8, 784},
//   data)}});
//
// Errors are kiln::Error exceptions. This header needs nothing but the standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/datum.h>
#include <kiln/dtype.h>
#include <kiln/error.h>
#include <kiln/tensor.h>
#include <kiln/value_info.h>

namespace kiln {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct NamedDatum {
  std::string name;
  Datum datum;
};

// A node of a model, as Kiln reads it: operators of old versions and compositions are those that they became.
struct NodeInfo {
  std::string name;
  std::string op;
  // "elementwise", "reduction", "softmax", "normalisation", "pooling", "data movement", "matmul",
  // "convolution", "shape" or "other".
  std::string operator_class;
};

enum class KernelChoice : std::uint8_t {
  Generated,    // compiled kernels, reference kernels where none can be made
  Reference,    // reference kernels alone
  Reference64,  // reference kernels with f16, bf16 and f32 computed in f64: the truth that tests compare with
};

// Every member has an initializer, so that any of them may be given by name: {.threads = 1}.
struct Options {
  // Instruction set of generated code: "native", "x86-64-v3" (AVX2 and FMA), "x86-64-v4" (AVX-512).
  std::string target = "native";
  KernelChoice kernels = KernelChoice::Generated;
  // Threads of a run, the caller's included, 4096 at most. 0: the CPUs that this process may use.
  int threads = 0;
  // The kernel cache file. Empty: kernels.sqlite in $XDG_CACHE_HOME/kiln or ~/.cache/kiln. "off": none.
  std::string cache{};
  // Treat every dimension of every input as unknown before running, whatever the model declares.
  bool ignore_declared_dims = false;
  // The same for the rank of every input; nearly everything then runs on reference kernels.
  bool ignore_declared_ranks = false;
  // Inputs that are constants of this Session, by name, one with a default value too; run() does not take
  // them.
  std::vector<NamedTensor> constant_inputs{};
  // A replacement by a reference kernel is an error, not a fallback.
  bool strict = false;
  // Most bytes of arena memory over all concurrent runs; a run that needs more is refused. 0: no cap; a
  // negative one is an error.
  std::int64_t memory_limit = 0;
  // Called with one line per compiled kernel and per fallback, from any thread.
  std::function<void(std::string_view)> log{};
  // The same for what goes on but should be known: a cache that cannot be used or was damaged, an output that
  // is not what the model declares.
  std::function<void(std::string_view)> warn{};
};

// Counters of a Session since it was loaded.
struct SessionStats {
  std::int64_t kernels_compiled = 0;
  std::int64_t kernels_from_cache = 0;
  double compile_ms_total = 0;
  double compile_ms_median = 0;
  std::int64_t fallback_nodes = 0;  // nodes of the newest Plan that run on reference kernels
  std::int64_t plans_made = 0;
  std::int64_t planned_bytes = 0;  // predicted peak of the newest Plan: arena and prepared constants
  // Why nodes fell back: (node and op, reason).
  std::vector<std::pair<std::string, std::string>> fallbacks;
};

// A loaded model. Immutable after load; run() may be called from many threads at once. One that was moved
// from answers every call with Error (caller, invalid_argument).
class Session {
 public:
  static Session load(const std::string& path, const Options& options = {});
  // `bytes` are read during the call only. External data is looked up in `folder`.
  static Session load_bytes(std::span<const std::byte> bytes, const std::string& folder,
                            const Options& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // What every run must be given.
  const std::vector<ValueInfo>& inputs() const;
  // Inputs that have a default value in the model (its initializers that are inputs too): each is a constant
  // but in a run that names it.
  const std::vector<ValueInfo>& defaults() const;
  const std::vector<ValueInfo>& outputs() const;
  // Before anything is optimised, producers first; not those of Graphs in nodes.
  const std::vector<NodeInfo>& nodes() const;

  // Runs once; inputs by name in any order, every one given, and those of defaults() whose value is another
  // in this run. The outputs are new tensors in model order. Where an input contradicts a rank or a fixed
  // extent that the model declares, what is given counts, after a warning. For each set of defaults that runs
  // replace, and for each way in which their inputs contradict the model, it is read again the first time; a
  // Session keeps the last few.
  std::vector<Tensor> run(std::span<const NamedTensor> inputs) const;
  std::vector<Tensor> run(std::initializer_list<NamedTensor> inputs) const;
  // The same for models whose inputs or outputs may be sequences, optionals or maps.
  std::vector<Datum> run(std::span<const NamedDatum> inputs) const;
  // The same into memory of the caller: `inputs`, those of inputs(), and `outputs` in model order with the
  // right dtypes and extents (output_extents() tells them), none of it shared with each other or with the
  // inputs. Nothing is allocated once the Plan for these sizes exists.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;

  // Extents of every output for inputs (in model order) of these extents; empty where the size depends on
  // the values. Extents that contradict each other are an error. Without any, what the model declares must
  // have no symbol.
  std::vector<std::optional<std::vector<std::int64_t>>> output_extents(
      std::span<const std::vector<std::int64_t>> input_extents) const;

  SessionStats stats() const;
  // Threads that a run may use.
  int threads() const;

  // What `kiln explain` prints. Stages: graph, regions, plan, tile, llvm, asm. `filter` keeps items whose
  // name contains it. `plan` needs the extents of every input, as output_extents() does.
  std::string explain(std::string_view stage, std::string_view filter,
                      std::span<const std::vector<std::int64_t>> input_extents) const;

  struct Implementation;

 private:
  explicit Session(std::unique_ptr<Implementation> implementation);
  Implementation& implementation() const;
  std::unique_ptr<Implementation> implementation_;
};

// The library's version, "0.1.0".
std::string_view version();

}  // namespace kiln
