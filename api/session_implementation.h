// What stands behind kiln::Session.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <kiln/kiln.h>

#include "ir/graph/graph.h"
#include "jit/kernel_service.h"
#include "runtime/session_core.h"

namespace kiln {

struct Session::Implementation {
  std::vector<ValueInfo> inputs, outputs;
  runtime::Parallelism parallelism;
  std::shared_ptr<jit::KernelService> kernels;
  std::optional<runtime::SessionCore> core;     // generated kernels
  std::optional<graph::Graph> reference_graph;  // reference kernels: run node by node
  bool reference_f64 = false;

  std::vector<Tensor> run(std::span<const Tensor> tensors);
};

}  // namespace kiln
