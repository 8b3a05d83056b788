// Runs small graphs through passes, layouts, regions and templates in the tile interpreter, and compares with
// the same graph on reference kernels.
#pragma once

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "kernels_ref/reference.h"
#include "runtime/model.h"
#include "tests/ir/graph/graph_builder.h"
#include "tests/support/interpreted_run.h"

namespace kiln::testing {

using Maker = std::function<void(graph::Graph&)>;

inline graph::ValueId random_weights(graph::Graph& graph, Extents extents, std::uint64_t seed) {
  return graph.add_constant(random_tensor(DType::F32, std::move(extents), seed));
}

// Runs at several values of the Symbol `n` (if the graph has one), on both targets and all variants.
inline void check(const Maker& make, bool may_fall_back = false,
                  std::vector<std::int64_t> sizes = {1, 3, 17}) {
  graph::Graph reference_graph;
  make(reference_graph);
  if (reference_graph.symbols.empty()) sizes = {0};
  for (const Isa isa : {Isa::X86_64_V3, Isa::X86_64_V4}) {
    Target target;
    target.isa = isa;
    graph::Graph graph;
    make(graph);
    const runtime::Model model(std::move(graph),
                               {.target = target, .kernels = nullptr, .strict = false, .log = {}});
    for (const std::int64_t size : sizes) {
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < reference_graph.inputs.size(); ++i) {
        const graph::Value& value = reference_graph.value(reference_graph.inputs[i]);
        Extents extents;
        for (const graph::Dim& dim : *value.shape)
          extents.push_back(dim.is_constant() ? dim.constant() : size);
        inputs.push_back(random_tensor(value.dtype, extents, 100 + i));
      }
      const std::vector<Tensor> want = reference::evaluate(reference_graph, inputs);
      for (std::size_t variant = 0; variant < 2; ++variant) {
        const auto got = run_interpreted(model, inputs, target, variant);
        if (!may_fall_back) {
          EXPECT_TRUE(got.fallbacks.empty()) << got.fallbacks[0];
        }
        ASSERT_EQ(got.outputs.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(difference(got.outputs[i], want[i]), "")
              << name(isa) << " n=" << size << " variant " << variant;
        }
      }
    }
  }
}

inline graph::ValueId symbolic_input(graph::Graph& graph, graph::Shape rest, DType dtype = DType::F32) {
  graph::Shape shape{symbol(graph, "n")};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return add_input(graph, dtype, shape, "x");
}

}  // namespace kiln::testing
