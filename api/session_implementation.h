// What stands behind kiln::Session.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/kiln.h>

#include "frontend/onnx/loader.h"
#include "ir/graph/graph.h"
#include "jit/kernel_service.h"
#include "runtime/specialisations.h"

namespace kiln {

struct Session::Implementation {
  // One Graph of the model, ready to run.
  struct Execution {
    std::optional<runtime::Specialisations> model;  // generated kernels
    std::optional<graph::Graph> reference_graph;    // reference kernels: run node by node
  };

  Implementation(frontend::ModelSource source, const Options& options);

  std::vector<Datum> run(std::span<const Datum> data);
  // Outputs, in the memory of `given` where they could be made there.
  std::vector<Datum> run_into(std::span<const Datum> data, std::span<const Tensor> given);
  // The one that takes inputs of these extents: that of the declared extents, or one made anew where the
  // inputs contradict them.
  Execution& execution_for(std::span<const Extents> extents);
  // That of the newest run.
  Execution& newest() { return *newest_; }
  // Adds what one part of the model tells; `milliseconds` are those of its compiled kernels.
  void add_stats(const runtime::SessionCore& part, SessionStats& stats,
                 std::vector<double>& milliseconds) const;

  const Options options;
  runtime::Parallelism parallelism;
  std::shared_ptr<jit::KernelService> kernels;
  std::vector<ValueInfo> inputs, outputs;  // as declared
  std::vector<NodeInfo> nodes;

 private:
  void make_execution(graph::Graph graph, Execution& execution) const;
  Execution& opened_execution(const frontend::OpenedInputs& wrong, std::span<const Extents> extents);
  // body() of the one for these inputs; its errors say what contradicts the model.
  template <typename Body>
  auto with_execution(std::span<const Datum> data, const Body& body);
  std::vector<Datum> evaluate(const graph::Graph& graph, std::span<const Datum> data) const;

  std::mutex mutex_;
  frontend::ModelSource source_;
  Execution declared_;
  std::map<frontend::OpenedInputs, std::unique_ptr<Execution>> opened_;
  std::atomic<Execution*> newest_ = &declared_;
};

}  // namespace kiln
