// What a run does for one Signature: Segments of Steps with every size, offset and grid worked out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/launch.h"
#include "runtime/model.h"

namespace kiln::runtime {

// A tensor as a Reference step sees it: strided memory of known extents, or one made while running.
struct TensorRef {
  BufferRef buffer;
  DType dtype = DType::F32;
  Extents extents;
  std::vector<std::int64_t> strides;  // elements
  bool dense = true;
};

// Runs a Kernel.
struct LaunchStep {
  BoundLaunch launch;
  std::size_t region = 0;  // index into Model::regions()
};

// Runs a node on its reference kernel, or the Graphs of a control node.
struct ReferenceStep {
  using Input =
      std::variant<std::monostate, Tensor, TensorRef, graph::ValueId>;  // absent, known, memory, made
  graph::NodeId node;
  std::vector<Input> inputs;
  // Memory to fill; nothing for an output whose size shows only now, or that is no tensor: it stays a Datum
  // of its own.
  std::vector<std::optional<TensorRef>> outputs;
  std::size_t region = 0;
};

// Binds the Symbols that the extents of a tensor made in this Segment stand for.
struct BindStep {
  graph::ValueId value;
};

using Step = std::variant<LaunchStep, ReferenceStep, BindStep>;

// Steps that can be planned together: up to a result whose size shows only when it is there.
struct Segment {
  std::vector<Step> steps;
  std::vector<Tensor> known;  // evaluated shape arithmetic that kernels read
  std::int64_t arena_bytes = 0;
  std::int64_t scratch_bytes = 0;  // that a thread needs for any launch, rounded up to 64
  std::size_t next_region = 0;     // where the following Segment starts; regions().size() after the last
};

// Where each Value that owns memory lies; grows from Segment to Segment.
using Placements = std::unordered_map<graph::ValueId, BufferRef>;

struct Plan {
  graph::Bindings bindings;
  Segment first;
  Placements placements;
  std::int64_t fallback_nodes = 0;
};

// Plans the first Segment for these Symbols.
Plan make_plan(const Model& model, graph::Bindings bindings);

// Plans the Segment that starts at `first_region`, number `segment`, once more Symbols are bound.
Segment make_segment(const Model& model, std::size_t first_region, std::uint32_t segment,
                     std::span<const std::int64_t> bindings, Placements& placements);

// The text of `kiln explain --stage plan`.
std::string to_text(const Plan& plan, const Model& model);

}  // namespace kiln::runtime
