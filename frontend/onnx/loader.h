// ONNX model files -> Graph.
//
// Functions here may be called from any thread. They throw Error: the caller's (invalid_model, unsupported,
// limit_exceeded, not_found ...) for whatever a model contains, the environment's for a file that cannot be
// read. Messages name the node, operator and value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include <kiln/tensor.h>

#include "ir/graph/graph.h"

namespace kiln::frontend {

// Bounds on what a model file can make the loader do.
struct LoadLimits {
  std::int64_t model_bytes = std::int64_t{1} << 40;     // of the model file, which is mapped
  std::int64_t external_bytes = std::int64_t{1} << 44;  // of one file of external data, which is mapped
  std::int64_t nodes = std::int64_t{1} << 20;           // after functions are expanded
  int nesting = 64;                                     // of graphs in nodes, and of function calls
};

struct LoadOptions {
  // Every dim of an input becomes a Symbol of its own, whatever the model declares.
  bool hide_dims = false;
  // Inputs have no known rank either.
  bool hide_rank = false;
  // An initializer that is also an input is by default a constant; with this, it is an input.
  bool initialized_inputs_stay_inputs = false;
  // Inputs that are to be constants.
  std::map<std::string, Tensor, std::less<>> constant_inputs;
  LoadLimits limits;
};

// Loads the model file at `path`; its external data lie below its folder. Large constants are spans of the
// mapped files, which must not be truncated while the Graph or a Tensor of it lives.
graph::Graph load_model(const std::string& path, const LoadOptions& options = {});

// The same for a model in memory: `bytes` are read during the call only. External data lie below `folder`;
// with an empty one they are refused.
graph::Graph load_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const LoadOptions& options = {});

}  // namespace kiln::frontend
