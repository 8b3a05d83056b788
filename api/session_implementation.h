// What stands behind kiln::Session.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <kiln/kiln.h>

#include "api/executions.h"
#include "frontend/onnx/loader.h"
#include "ir/graph/graph.h"
#include "jit/kernel_service.h"
#include "runtime/inputs.h"
#include "runtime/session_core.h"

namespace kiln {

// The inputs of a run in model order, and after them those defaults that it replaces, whose positions among
// all defaults are `replaced`.
struct Arguments {
  std::vector<Datum> data;
  std::vector<std::size_t> replaced;
};

struct Session::Implementation {
  Implementation(frontend::ModelSource source, const Options& options);

  std::vector<Datum> run(const Arguments& arguments);
  // Outputs, in the memory of `given` where they could be made there.
  std::vector<Datum> run_into(std::span<const Datum> data, std::span<const Tensor> given);
  std::vector<std::optional<Extents>> output_extents(std::span<const Extents> extents);
  // Adds what one part of the model tells; `milliseconds` are those of its compiled kernels.
  void add_stats(const runtime::SessionCore& part, SessionStats& stats,
                 std::vector<double>& milliseconds) const;

  const Options options;
  runtime::Parallelism parallelism;
  std::shared_ptr<jit::KernelService> kernels;
  std::vector<ValueInfo> inputs, defaults, outputs;  // as declared
  std::vector<NodeInfo> nodes;
  std::optional<api::Executions> executions;  // always there once constructed

 private:
  std::shared_ptr<api::Execution> make_execution(graph::Graph graph) const;
  [[nodiscard]] runtime::Contradictions run(api::Execution& execution, std::span<const Datum> data,
                                            std::vector<Datum>& outputs) const;
  std::vector<Datum> evaluate(const graph::Graph& graph, std::span<const Datum> data) const;
};

}  // namespace kiln
