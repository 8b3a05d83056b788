// Graph -> Graph passes, run once when a model is loaded. Each keeps the model's meaning within the numeric
// law (docs/numerics.md) and leaves a valid Graph. The list in passes.cc is the pipeline.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph/graph.h"

namespace kiln::runtime {

struct Pass {
  const char* name;
  void (*run)(graph::Graph& graph);
};

// In the order in which they run.
std::span<const Pass> graph_passes();

// Runs all of them, then drops what nothing reads.
void optimise(graph::Graph& graph);

// The argument of a Softmax of f16 or bf16 is made and taken in f32, from 16-bit operands, where only the
// Softmax reads it: an absolute error of the argument is a relative one of the result, and 16 bits leave 1e-3
// and more.
void widen_softmax_arguments(graph::Graph& graph);

// A convolution or matrix product of two dequantised 8-bit operands sums the integers, which f32 does exactly
// up to 2^24, and multiplies by the scales afterwards.
void scale_after_sums(graph::Graph& graph);

// The passes above: part of the numeric law, for reference kernels too.
void apply_numeric_law(graph::Graph& graph);

// Nodes whose inputs are all constant become constants. A result is kept only up to 1 MiB, or up to twice the
// bytes of the node's inputs, so that folding never explodes a model. Random nodes stay.
void fold_constants(graph::Graph& graph);

// Values whose elements are known symbolically and constant become constants.
void fold_known_elements(graph::Graph& graph);

// Identity, Dropout, and Cast, Reshape, Transpose, Expand, Pad, Slice ... that change nothing.
void remove_identities(graph::Graph& graph);

// One form for operators that say the same: global pools are reductions, Flatten is Reshape, a Softmax over
// one element is 1, Sum of two is Add, CastLike is Cast, ...
void canonicalise(graph::Graph& graph);

// BatchNormalization with constant parameters: into the weights of the Conv or Gemm before it (computed in
// f64), else one multiplication and one addition per element.
void fold_batch_normalization(graph::Graph& graph);

// Equal nodes (kind, inputs, attributes) and equal small constants become one. Random nodes stay apart.
void merge_common_nodes(graph::Graph& graph);

// Nodes whose results nothing reads. Shape arithmetic whose consumers know the elements symbolically is dead.
void remove_dead_nodes(graph::Graph& graph);

// Gives every Value of known rank a Layout, and inserts the Identity nodes that copy where a view cannot do.
// Runs last: it names Values by Id, which compact() would change.
void assign_layouts(graph::Graph& graph);

}  // namespace kiln::runtime
