// What the inference functions of ops.def share; for ir/graph alone.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/graph/graph.h"

namespace kiln::graph {

// The inference functions that ops.def names.
#define KILN_OP(kind, domain, operator_class, infer, signature, attributes) \
  void infer(Graph& graph, Node& node);
#include "ir/graph/ops.def"
#undef KILN_OP

// Sets the elements of the node's outputs where those of its inputs tell them. After shape inference.
void evaluate_elements(Graph& graph, Node& node);

// A node whose outputs are being inferred. The Values of its outputs exist; their dtype is set where the
// contract tells it.
class Inference {
 public:
  Inference(Graph& graph, Node& node) : graph_(graph), node_(node) {}

  Graph& graph() { return graph_; }
  Node& node() { return node_; }

  bool has_input(std::size_t operand) const;
  bool has_output(std::size_t operand) const;
  const Value& input(std::size_t operand) const { return graph_.value(node_.inputs[operand]); }
  const Value& output(std::size_t operand) const { return graph_.value(node_.outputs[operand]); }
  Value& output(std::size_t operand) { return graph_.value(node_.outputs[operand]); }

  // Nothing if the rank is unknown.
  const std::optional<Shape>& shape(std::size_t operand) const { return input(operand).shape; }
  // The shape; throws if its rank is known and not between `low` and `high`.
  const std::optional<Shape>& shape_of_rank(std::size_t operand, std::size_t low,
                                            std::size_t high = SIZE_MAX) const;
  // Known elements of an input that is present; nothing otherwise.
  std::optional<std::vector<Dim>> elements(std::size_t operand) const;
  // The same if all are constant.
  std::optional<std::vector<std::int64_t>> constants(std::size_t operand) const;

  // Does nothing for an output that is absent.
  void set_shape(std::size_t operand, std::optional<Shape> shape);
  void set_dtype(std::size_t operand, DType dtype);

  // An extent of an output that only running the node can tell.
  Dim fresh(std::size_t operand, std::size_t axis);
  Shape fresh_shape(std::size_t operand, std::size_t rank);

  // `axis` counted from the front; throws if it is not in [-rank, rank).
  std::size_t normalized(std::int64_t axis, std::size_t rank, std::string_view what = "axis") const;
  // The same of a list; throws if it has an axis twice.
  std::set<std::size_t> axis_set(std::span<const std::int64_t> axes, std::size_t rank) const;
  // The attribute "axis", replaced in the node by its normal form.
  std::size_t normalize_axis(std::size_t rank);

  // A dtype given by its number in an attribute; throws if it is none.
  DType dtype_attribute(std::string_view attribute) const;

  // Two extents that must be the same: the simpler one. Adds a Guard if it cannot be proved, throws if it
  // is impossible.
  Dim same(const Dim& a, const Dim& b, std::string_view what);
  Dim broadcast_extents(const Dim& a, const Dim& b);
  Shape broadcast_shapes(const Shape& a, const Shape& b);
  // Adds a Guard that the extent is `extent` or 1, unless proved.
  void broadcasts_to(const Dim& got, const Dim& extent, std::string_view what);
  // Adds a Guard that `got` is `low` or more, unless proved; throws if it is impossible.
  void at_least(const Dim& got, const Dim& low, std::string_view what);

  template <typename... Args>
  [[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::Caller, code, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string text(const Dim& dim) const;
  std::string text(const Shape& shape) const;

 private:
  void add_guard(const Dim& left, const Dim& right, std::string_view what,
                 Guard::Relation relation = Guard::Relation::Equal);

  Graph& graph_;
  Node& node_;
};

}  // namespace kiln::graph
