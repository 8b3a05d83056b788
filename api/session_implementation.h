// What stands behind kiln::Session.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <kiln/kiln.h>

#include "ir/graph/graph.h"
#include "jit/kernel_service.h"
#include "runtime/specialisations.h"

namespace kiln {

struct Session::Implementation {
  std::vector<ValueInfo> inputs, outputs;
  runtime::Parallelism parallelism;
  std::shared_ptr<jit::KernelService> kernels;
  std::optional<runtime::Specialisations> model;  // generated kernels
  std::optional<graph::Graph> reference_graph;    // reference kernels: run node by node
  bool reference_f64 = false;

  std::vector<Datum> run(std::span<const Datum> data);
  // Adds what one part of the model tells; `milliseconds` are those of its compiled kernels.
  void add_stats(const runtime::SessionCore& part, SessionStats& stats,
                 std::vector<double>& milliseconds) const;
};

}  // namespace kiln
