// A loaded model: the optimised Graph, its Regions, and the Programs compiled for them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/target.h"
#include "ir/graph/problem.h"
#include "ir/templates/template.h"
#include "jit/kernel_service.h"
#include "runtime/launch.h"

namespace kiln::runtime {

using Log = std::function<void(std::string_view line)>;

// 64-byte aligned memory of fixed size.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::int64_t bytes);  // Error (environment, out_of_memory)
  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

// A Program ready to run for the sizes that its guard admits.
struct Variant {
  templates::VariantChoice choice;
  templates::Program program;
  std::vector<jit::LoadedKernel> kernels;                      // per program.kernels
  std::vector<std::shared_ptr<const AlignedBuffer>> prepared;  // per program.values; null unless Prepared
};

// What is said of a Region whose node runs Graphs.
constexpr std::string_view kRunsGraphs = "runs the graphs in it, whose regions are its own";

// A Region and what runs it: compiled Variants, or reference kernels for the reason given.
struct CompiledRegion {
  graph::Region region;
  graph::Problem problem;
  const templates::Template* source = nullptr;
  bool control = false;           // runs Graphs of its own: no kernels, but no fallback either
  std::string fallback_reason;    // why `source` is null, or why it was given up
  std::vector<Variant> variants;  // once compiled: the guarded ones, then the default

  bool generated() const { return source != nullptr; }
  bool falls_back() const { return source == nullptr && !control; }
  // The Variant for these values of the Problem's Symbols.
  const Variant& variant(std::span<const std::int64_t> problem_bindings) const;
};

struct ModelOptions {
  Target target;
  std::shared_ptr<jit::KernelService> kernels;
  bool strict = false;
  Log log;  // may be empty
};

// Immutable once compile() has returned; compile() may be called from many threads, the first does the work.
class Model {
 public:
  // Optimises the Graph, forms Regions and picks a Template for each; compiles nothing.
  Model(graph::Graph graph, ModelOptions options);

  const graph::Graph& graph() const { return graph_; }
  // In an order in which producers come first.
  const std::vector<CompiledRegion>& regions() const { return regions_; }
  const std::vector<std::string>& decisions() const { return decisions_; }  // of region forming

  const Target& target() const { return options_.target; }
  const ModelOptions& options() const { return options_; }

  // Builds the Programs of every Region, without compiling them.
  void build();
  // Compiles every Variant of every Region and prepares constants. Regions whose Kernels cannot be compiled
  // fall back, or with `strict` throw.
  void compile(const Parallelism& parallelism);
  // Bytes of prepared constants.
  std::int64_t prepared_bytes() const { return prepared_bytes_; }
  std::vector<double> compile_milliseconds() const { return compile_milliseconds_; }

 private:
  void add_region(const graph::Region& region, bool may_split);
  // The first Template that takes the Region; else false, and `reasons` says why none did.
  bool choose_template(CompiledRegion& region, std::string& reasons);
  void build_variants();
  void compile_kernels(const Parallelism& parallelism);
  void prepare_constants(const Parallelism& parallelism);
  void give_up(CompiledRegion& region, std::string reason);

  graph::Graph graph_;
  ModelOptions options_;
  std::vector<CompiledRegion> regions_;
  std::vector<std::string> decisions_;
  std::once_flag built_, compiled_;
  std::map<std::string, std::shared_ptr<const AlignedBuffer>> prepared_;  // by content, prepare key and value
  std::int64_t prepared_bytes_ = 0;
  std::vector<double> compile_milliseconds_;
};

}  // namespace kiln::runtime
