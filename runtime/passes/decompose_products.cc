#include <algorithm>
#include <map>
#include <vector>

#include "ir/graph/einsum.h"
#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// What the dot and rows Templates sum.
bool is_summable(DType dtype) {
  return (is_float(dtype) && bits(dtype) >= 16) || (is_integer(dtype) && bits(dtype) >= 32);
}

bool contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Sums of products by labelled axes, as an Einsum has them. Every label of an operand has the label's own
// extent there: axes along which an operand only repeats are left out.
class LabelledProduct {
 public:
  LabelledProduct(Graph& graph, std::map<int, Dim> extents) : graph_(graph), extents_(std::move(extents)) {}

  struct Operand {
    ValueId value;
    std::vector<int> labels;
  };

  Operand transposed(const Operand& operand, const std::vector<int>& labels) {
    if (operand.labels == labels) return operand;
    std::vector<std::int64_t> permutation;
    for (const int label : labels) {
      permutation.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) -
                            operand.labels.begin());
    }
    return {graph_.add(OpKind::Transpose, {operand.value}, {{"perm", std::move(permutation)}}), labels};
  }

  // The sum over all labels that are not `kept`.
  Operand summed(const Operand& operand, const std::vector<int>& kept) {
    std::vector<std::int64_t> axes;
    std::vector<int> labels;
    for (std::size_t i = 0; i < operand.labels.size(); ++i) {
      if (contains(kept, operand.labels[i])) {
        labels.push_back(operand.labels[i]);
      } else {
        axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (axes.empty()) return operand;
    const ValueId sum =
        graph_.add(OpKind::ReduceSum, {operand.value, graph_.add_constant(Tensor::from_integers(axes))},
                   {{"keepdims", std::int64_t{0}}});
    return {sum, std::move(labels)};
  }

  // Sums over labels of both that are not `kept`; those of one alone are.
  Operand product(const Operand& a, const Operand& b, const std::vector<int>& kept) {
    std::vector<int> batch, contracted, left, right;
    for (const int label : a.labels)
      (!contains(b.labels, label) ? left : contains(kept, label) ? batch : contracted).push_back(label);
    for (const int label : b.labels) {
      if (!contains(a.labels, label)) right.push_back(label);
    }
    std::vector<int> labels = joined(joined(batch, left), right);
    if (contracted.empty()) {
      const std::vector<int> of_a = joined(batch, left), of_b = joined(batch, right);
      Shape shape = shape_of(of_a);
      shape.resize(labels.size(), Dim(1));
      const ValueId spread = reshape(graph_, transposed(a, of_a).value, shape);
      shape = shape_of(batch);
      shape.resize(of_a.size(), Dim(1));
      const Shape behind = shape_of(right);
      shape.insert(shape.end(), behind.begin(), behind.end());
      return {graph_.add(OpKind::Mul, {spread, reshape(graph_, transposed(b, of_b).value, shape)}),
              std::move(labels)};
    }
    const auto matrix = [&](const Operand& operand, const std::vector<int>& rows,
                            const std::vector<int>& columns) {
      const ValueId value = transposed(operand, joined(joined(batch, rows), columns)).value;
      return reshape(graph_, value, {elements(batch), elements(rows), elements(columns)});
    };
    const ValueId matrices =
        graph_.add(OpKind::MatMul, {matrix(a, left, contracted), matrix(b, contracted, right)});
    return {reshape(graph_, matrices, shape_of(labels)), std::move(labels)};
  }

 private:
  static std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  Shape shape_of(const std::vector<int>& labels) const {
    Shape shape;
    for (const int label : labels) shape.push_back(extents_.at(label));
    return shape;
  }

  Dim elements(const std::vector<int>& labels) const {
    Dim product = 1;
    for (const int label : labels) product = product * extents_.at(label);
    return product;
  }

  Graph& graph_;
  std::map<int, Dim> extents_;
};

// Two axes of one label become one: their diagonal is every (n + 1)-th element of both. Nothing if n is not
// constant.
std::optional<LabelledProduct::Operand> without_diagonals(Graph& graph, LabelledProduct::Operand operand) {
  std::vector<int>& labels = operand.labels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto other =
        std::find(labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, labels.end(), labels[i]);
    if (other == labels.end()) continue;
    const Shape shape = *graph.value(operand.value).shape;
    if (!shape[i].is_constant()) return std::nullopt;
    const std::int64_t n = shape[i].constant();
    const auto j = static_cast<std::size_t>(other - labels.begin());
    std::vector<std::int64_t> permutation;
    std::vector<int> rest;
    Shape flat;
    for (std::size_t k = 0; k < labels.size(); ++k) {
      if (k == i || k == j) continue;
      permutation.push_back(static_cast<std::int64_t>(k));
      rest.push_back(labels[k]);
      flat.push_back(shape[k]);
    }
    permutation.push_back(static_cast<std::int64_t>(i));
    permutation.push_back(static_cast<std::int64_t>(j));
    flat.push_back(shape[i] * shape[j]);
    const auto axis = static_cast<std::int64_t>(rest.size());
    const ValueId last = graph.add(OpKind::Transpose, {operand.value}, {{"perm", std::move(permutation)}});
    const auto number = [&](std::int64_t value) {
      return graph.add_constant(Tensor::from_integers(std::vector{value}));
    };
    const ValueId diagonal = graph.add(
        OpKind::Slice, {reshape(graph, last, flat), number(0), number(n * n), number(axis), number(n + 1)});
    rest.push_back(labels[i]);
    return without_diagonals(graph, {diagonal, std::move(rest)});
  }
  return operand;
}

}  // namespace

std::optional<ValueId> vector_product_as_matrix_product(Graph& graph, const Node& node) {
  std::vector<ValueId> operands = node.inputs;
  const auto& result = graph.value(node.outputs[0]).shape;
  if (!result || !graph.value(operands[0]).shape || !graph.value(operands[1]).shape) return std::nullopt;
  const Shape shape = *result, a = *graph.value(operands[0]).shape, b = *graph.value(operands[1]).shape;
  if (a.size() > 1 && b.size() > 1) return std::nullopt;
  if (a.size() == 1) operands[0] = reshape(graph, operands[0], {1, a[0]});
  if (b.size() == 1) operands[1] = reshape(graph, operands[1], {b[0], 1});
  return reshape(graph, graph.add(OpKind::MatMul, operands), shape);
}

std::optional<ValueId> einsum_as_products(Graph& graph, const Node& node) {
  using Operand = LabelledProduct::Operand;
  const auto& result = graph.value(node.outputs[0]).shape;
  if (!result || !is_summable(graph.value(node.outputs[0]).dtype)) return std::nullopt;
  const Shape shape = *result;
  const std::vector<ValueId> inputs = node.inputs;
  const graph::EinsumEquation equation = graph::parse_einsum(text(node, "equation"), inputs.size());
  std::vector<Operand> operands;
  std::map<int, Dim> extents;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& its = graph.value(inputs[i]).shape;
    if (!its) return std::nullopt;
    const std::size_t ellipsis = graph::ellipsis_axes(equation.inputs[i], its->size());
    widest = std::max(widest, ellipsis);
    operands.push_back({inputs[i], graph::einsum_labels(equation.inputs[i], ellipsis)});
    for (std::size_t axis = 0; axis < its->size(); ++axis) {
      // One label, one extent; 1 repeats.
      const Dim& extent = (*its)[axis];
      const auto [at, inserted] = extents.emplace(operands.back().labels[axis], extent);
      if (at->second == Dim(1)) at->second = extent;
      if (extent != Dim(1) && extent != at->second) return std::nullopt;
    }
  }
  for (Operand& operand : operands) {
    auto plain = without_diagonals(graph, operand);
    if (!plain) return std::nullopt;
    const Shape its = *graph.value(plain->value).shape;
    Operand varying{plain->value, {}};
    Shape kept;
    for (std::size_t axis = 0; axis < its.size(); ++axis) {
      if (its[axis] == Dim(1)) continue;
      varying.labels.push_back(plain->labels[axis]);
      kept.push_back(its[axis]);
    }
    if (kept != its) varying.value = reshape(graph, plain->value, kept);
    operand = std::move(varying);
  }
  LabelledProduct products(graph, std::move(extents));
  const std::vector<int> output = graph::einsum_labels(equation.output, widest);
  // Labels that the output has or an operand other than those from `first` to `last`.
  const auto needed = [&](std::size_t first, std::size_t last) {
    std::vector<int> labels = output;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i >= first && i <= last) continue;
      labels.insert(labels.end(), operands[i].labels.begin(), operands[i].labels.end());
    }
    return labels;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = products.summed(operands[i], needed(i, i));
  Operand total = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i)
    total = products.product(total, operands[i], needed(0, i));
  std::vector<int> order;
  for (const int label : output) {
    if (contains(total.labels, label)) order.push_back(label);
  }
  return reshape(graph, products.transposed(total, order).value, shape);
}

}  // namespace kiln::runtime
