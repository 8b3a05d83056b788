// Reference kernels: one plain C++ function per operator, the oracle of every test and the fallback at run
// time. docs/numerics.md states the rules that they follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <kiln/datum.h>
#include <kiln/tensor.h>

#include "ir/graph/graph.h"

namespace kiln::reference {

// Calls body(begin, end) for disjoint ranges that cover [0, count), at least `grain` long but for the last,
// from any threads, and returns when all are done. Rethrows one of the exceptions of `body`.
using RangeBody = std::function<void(std::int64_t begin, std::int64_t end)>;
using ParallelFor = std::function<void(std::int64_t count, std::int64_t grain, const RangeBody& body)>;

// The dtype of a value in the f64 run: f64 for f16, bf16 and f32, else `dtype`.
DType widened(DType dtype);

// Runs a Graph of the node's attributes on these inputs; returns its outputs.
using RunBody = std::function<std::vector<Datum>(const graph::Graph& body, std::vector<Datum> inputs)>;

// One execution of one node. A kernel dispatches on the dtypes of the tensors that it gets, never on those
// declared by the graph, so that a graph declared in f32 also runs in f64.
struct Call {
  const graph::Node& node;
  std::span<const Datum* const> inputs;  // as node.inputs; null: absent
  // As node.outputs. Nothing, or a tensor in memory of the caller that the kernel fills where dtype and
  // extents are those of the result; otherwise the kernel puts a tensor of its own in place.
  std::vector<Datum> outputs;
  const ParallelFor* parallel = nullptr;  // null: one thread
  bool promote_f32 = false;               // a dtype attribute or constant means widened(its dtype)
  const RunBody* run_body = nullptr;      // for operators with Graphs

  bool has_input(std::size_t index) const { return index < inputs.size() && inputs[index] != nullptr; }
  // A required input. Throws Error (bug) if absent.
  const Datum& datum(std::size_t index) const;
  const Tensor& input(std::size_t index) const { return datum(index).tensor(); }
  bool wants(std::size_t index) const { return index < node.outputs.size() && bool{node.outputs[index]}; }
  // The tensor to fill: the caller's if it fits, else a new one. Its bytes are unspecified.
  Tensor& output(std::size_t index, DType dtype, Extents extents);
  // Gives `source` under other extents: shared, or copied into the caller's memory if that fits.
  void output_view(std::size_t index, const Tensor& source, Extents extents);
  DType promoted(DType dtype) const { return promote_f32 ? widened(dtype) : dtype; }
};

// Throws Error (caller) on bad input: shapes that do not fit, an index out of range, a division by zero.
using Kernel = void (*)(Call& call);

// The kernel of `op`, or null if it has none. O(1), thread safe.
Kernel find(graph::OpKind op);

struct EvaluateOptions {
  // Every f16, bf16 and f32 input and constant is widened to f64, and such outputs come back as f64.
  bool f64 = false;
  const ParallelFor* parallel = nullptr;
};

// Runs `graph` node by node on `inputs` (in the order of graph.inputs) and returns its outputs. Tensors are
// freed after their last use. Thread safe. Errors name node and op.
std::vector<Datum> evaluate(const graph::Graph& graph, std::span<const Datum> inputs,
                            const EvaluateOptions& options = {});
// The same for a Graph whose inputs and outputs are tensors.
std::vector<Tensor> evaluate(const graph::Graph& graph, std::span<const Tensor> inputs,
                             const EvaluateOptions& options = {});

// `tensor` with its elements as widened(dtype); shared if that is what they are.
Tensor widened_to_f64(const Tensor& tensor);
Datum widened_to_f64(const Datum& datum);

}  // namespace kiln::reference
