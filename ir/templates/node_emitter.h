// Turns Elementwise nodes of a Problem into tile expressions. Every Template's prologue and epilogue goes
// through here, so that an operator means the same in all of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "ir/tile/builder.h"

namespace kiln::templates {

// Why no tile expression exists for an Elementwise node (dtype or operator); nothing if one does.
std::optional<std::string> why_not_emittable(const graph::Graph& graph, const graph::Node& node);

// True for a division of integers whose divisor may be 0. Where a tile reaches beyond what there is, its fill
// must not be reported as one: only an emitter that knows live elements takes such a node.
bool may_divide_by_zero(const graph::Graph& graph, const graph::Node& node);

// The dtype a graph Value is computed in inside a Kernel: f16 and bf16 compute in f32 and are rounded after
// every node, all others in their own.
DType compute_dtype(DType dtype);

// True if Kernels can compute with this dtype, and have literals of it.
bool is_computable(DType dtype);

// The number that a one-element constant of a computable dtype holds; nothing if a double cannot hold it.
std::optional<double> scalar_number(const Tensor& constant);

class NodeEmitter {
 public:
  NodeEmitter(tile::KernelBuilder& builder, const graph::Graph& graph) : builder_(builder), graph_(graph) {}

  // `live` makes an i1 tile that says which elements there are; called at most once, where it is needed.
  void limit_to(std::function<tile::Expr()> live) { make_live_ = std::move(live); }
  // Says what a Value of the Problem is, in its storage dtype (a load) or its compute dtype.
  void define(graph::ValueId id, tile::Expr expr);
  bool is_defined(graph::ValueId id) const { return defined_.count(id) != 0; }
  // In compute dtype. One-element constants are literals; anything else must be defined.
  tile::Expr value(graph::ValueId id);
  // In the dtype of the graph Value, as it is stored.
  tile::Expr stored(graph::ValueId id);

  // Defines the node's first output from its inputs. The node is emittable.
  void emit(const graph::Node& node);

 private:
  tile::Expr result_of(const graph::Node& node);
  tile::Expr integer_power(const graph::Node& node);
  tile::Expr among_live(tile::Expr divisor);

  tile::KernelBuilder& builder_;
  const graph::Graph& graph_;
  std::map<graph::ValueId, tile::Expr> defined_;
  std::function<tile::Expr()> make_live_;
  tile::Expr live_;
};

}  // namespace kiln::templates
