// ONNX model files -> Graph.
//
// Functions here may be called from any thread. They throw Error: the caller's (invalid_model, unsupported,
// limit_exceeded, not_found ...) for whatever a model contains, the environment's for a file that cannot be
// read. Messages name the node, operator and value.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/tensor.h>
#include <kiln/value_info.h>

#include "ir/graph/graph.h"

namespace kiln::frontend {

// Bounds on what a model file can make the loader do.
struct LoadLimits {
  std::int64_t model_bytes = std::int64_t{1} << 40;     // of the model file, which is mapped
  std::int64_t external_bytes = std::int64_t{1} << 44;  // of one file of external data, which is mapped
  std::int64_t nodes = std::int64_t{1} << 20;           // after functions are expanded
  int nesting = 64;                                     // of graphs in nodes, and of function calls
};

// An input whose declared extents turned out wrong.
struct OpenedInput {
  std::optional<std::size_t> rank;  // where the declared rank is wrong: this one, with every extent open
  std::set<std::size_t> axes;       // whose extents are open, whatever the model declares
  auto operator<=>(const OpenedInput&) const = default;
};
using OpenedInputs = std::map<std::string, OpenedInput, std::less<>>;  // by name

struct LoadOptions {
  // Every dim of an input becomes a Symbol of its own, whatever the model declares.
  bool hide_dims = false;
  // Inputs have no known rank either.
  bool hide_rank = false;
  OpenedInputs opened_inputs;
  // An initializer that is also an input is a constant, but for these: they are inputs, after all others.
  std::set<std::string, std::less<>> replaced_defaults;
  // Inputs that are to be constants.
  std::map<std::string, Tensor, std::less<>> constant_inputs;
  // Called with one line for what the model says wrongly and the loader knows better: what an output or the
  // shape of an initializer is, a format newer than any known. May be empty.
  std::function<void(std::string_view)> warn;
  LoadLimits limits;
};

// A model file's contents, from which Graphs are made. Not thread safe.
class ModelSource {
 public:
  // The model file at `path`; its external data lie below its folder. Large constants of its Graphs are spans
  // of the mapped files, which must not be truncated while it, a Graph or a Tensor of one lives.
  static ModelSource open(const std::string& path, const LoadLimits& limits = {});
  // A model in memory: `bytes` are read during the call only. External data lie below `folder`; with an
  // empty one they are refused.
  static ModelSource from_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                const LoadLimits& limits = {});

  ModelSource(ModelSource&&) noexcept;
  ModelSource& operator=(ModelSource&&) noexcept;
  ~ModelSource();

  graph::Graph graph(const LoadOptions& options = {});
  // The initializers that are also inputs, in the order of the inputs, but for constant ones.
  std::vector<ValueInfo> defaults(const LoadOptions& options = {}) const;

 private:
  struct Contents;
  explicit ModelSource(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

// One Graph of a file, or of bytes.
graph::Graph load_model(const std::string& path, const LoadOptions& options = {});
graph::Graph load_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const LoadOptions& options = {});

}  // namespace kiln::frontend
