#include "ir/templates/row_program.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "ir/graph/operands.h"
#include "ir/templates/node_emitter.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::FusionClass;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Combiner;
using tile::Expr;
using tile::KernelBuilder;

using Operands = std::span<const Expr>;

bool is_simple_reduction(OpKind op) {
  switch (op) {
    case OpKind::ReduceSum:
    case OpKind::ReduceMean:
    case OpKind::ReduceMax:
    case OpKind::ReduceMin:
    case OpKind::ReduceProd:
    case OpKind::ReduceL1:
    case OpKind::ReduceL2:
    case OpKind::ReduceLogSum:
    case OpKind::ReduceLogSumExp:
    case OpKind::ReduceSumSquare:
      return true;
    default:
      return false;
  }
}

// Rows operators that this Template knows.
bool is_row_operator(OpKind op) {
  return is_simple_reduction(op) || op == OpKind::Softmax || op == OpKind::LogSoftmax ||
         op == OpKind::LayerNormalization || op == OpKind::RMSNormalization ||
         op == OpKind::InstanceNormalization;
}

// The axes of one of them; nothing if they are not constant or none.
std::optional<std::vector<int>> reduced_axes(const Graph& graph, const Node& node) {
  if (!is_row_operator(node.op)) return std::nullopt;
  const auto axes = row_axes(graph, node);
  if (!axes || axes->empty()) return std::nullopt;
  return std::vector<int>(axes->begin(), axes->end());
}

// Functions that cost more than loading their result again.
bool is_costly(OpKind op) {
  switch (op) {
    case OpKind::Exp:
    case OpKind::Log:
    case OpKind::Erf:
    case OpKind::Tanh:
    case OpKind::Sigmoid:
    case OpKind::Gelu:
    case OpKind::Softplus:
    case OpKind::Mish:
    case OpKind::Swish:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Div:
    case OpKind::Pow:
      return true;
    default:
      return false;
  }
}

class RowProgramBuilder {
 public:
  RowProgramBuilder(const Problem& problem, const RowSpace& space, const std::vector<bool>& input_is_full,
                    std::function<Expr(KernelBuilder&, DType)> count)
      : graph_(problem.graph), space_(space), count_(std::move(count)) {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      RowValue value{.kind = RowValue::Kind::Input,
                     .full = input_is_full[i],
                     .dtype = compute_dtype(graph_.value(graph_.inputs[i]).dtype),
                     .input = static_cast<int>(i)};
      ids_[graph_.inputs[i]] = add(std::move(value));
    }
    for (const NodeId id : graph_.topological_order()) add_node(graph_.node(id));
    int last_reduction = -1;
    for (const RowValue& value : program_.values) {
      if (value.kind == RowValue::Kind::Reduce) last_reduction = std::max(last_reduction, value.stage);
    }
    for (const ValueId id : graph_.outputs) {
      program_.outputs.push_back(ids_.at(id));
      // What is stored along the row is stored in the last pass, and must be there by then.
      if (at(ids_.at(id)).full || alignment(*graph_.value(id).shape, space_) == RowAlignment::Full)
        last_reduction = std::max(last_reduction, stage_of(std::array{ids_.at(id)}));
    }
    program_.stages = last_reduction + 1;
  }

  RowProgram finish() { return std::move(program_); }

 private:
  const RowValue& at(RowValueId id) const { return program_.values[static_cast<std::size_t>(id)]; }

  RowValueId add(RowValue value) {
    program_.values.push_back(std::move(value));
    return static_cast<RowValueId>(program_.values.size()) - 1;
  }

  // A row value made in pass s can be used in pass s + 1.
  int stage_of(std::span<const RowValueId> operands) const {
    int stage = 0;
    for (const RowValueId id : operands) {
      const RowValue& value = at(id);
      stage = std::max(stage, value.kind == RowValue::Kind::Reduce ? value.stage + 1 : value.stage);
    }
    return stage;
  }

  RowValueId compute(std::vector<RowValueId> operands, std::function<Expr(KernelBuilder&, Operands)> function,
                     bool costly = false, std::optional<DType> dtype = std::nullopt) {
    RowValue value{.kind = RowValue::Kind::Compute,
                   .dtype = dtype ? *dtype : at(operands[0]).dtype,
                   .stage = stage_of(operands),
                   .costly = costly};
    for (const RowValueId id : operands) {
      value.full |= at(id).full;
      value.costly |= at(id).full && at(id).costly;
    }
    value.operands = std::move(operands);
    value.compute = std::move(function);
    return add(std::move(value));
  }

  RowValueId reduce(Combiner combiner, RowValueId operand) {
    const std::vector<RowValueId> operands{operand};
    return add({.kind = RowValue::Kind::Reduce,
                .dtype = at(operand).dtype,
                .stage = stage_of(operands),
                .operands = operands,
                .combiner = combiner});
  }

  RowValueId mean(RowValueId operand) {
    const RowValueId sum = reduce(Combiner::Sum, operand);
    return compute({sum}, [count = count_](KernelBuilder& k, Operands x) {
      return x[0] / count(k, x[0].type().element);
    });
  }

  RowValueId square(RowValueId operand) {
    return compute({operand}, [](KernelBuilder&, Operands x) { return x[0] * x[0]; });
  }

  // A Value in compute dtype, as NodeEmitter defines it.
  RowValueId operand(const Node& node, std::size_t i) {
    const ValueId id = node.inputs[i];
    const auto found = ids_.find(id);
    if (found != ids_.end()) return found->second;
    const Graph& graph = graph_;
    const RowValueId literal = compute(
        {}, [&graph, id](KernelBuilder& k, Operands) { return NodeEmitter(k, graph).value(id); }, false,
        compute_dtype(graph_.value(id).dtype));
    ids_[id] = literal;
    return literal;
  }

  // Results are rounded to their storage dtype, as after every node.
  void define(ValueId id, RowValueId value) {
    const DType dtype = graph_.value(id).dtype;
    if (compute_dtype(dtype) != dtype) {
      value = compute({value}, [dtype](KernelBuilder& k, Operands x) {
        return k.cast(k.cast(x[0], dtype), compute_dtype(dtype));
      });
    }
    ids_[id] = value;
  }

  void add_node(const Node& node) {
    if (contract(node.op).fusion == FusionClass::Elementwise) {
      add_elementwise(node);
    } else if (is_simple_reduction(node.op)) {
      const RowValueId x = operand(node, 0);
      const bool integers = is_integer(at(x).dtype);
      define(node.outputs[0], integers ? integer_reduction(node.op, x) : reduction(node.op, x));
    } else if (node.op == OpKind::Softmax || node.op == OpKind::LogSoftmax) {
      add_softmax(node);
    } else {
      add_norm(node);
    }
  }

  void add_elementwise(const Node& node) {
    std::vector<RowValueId> operands;
    std::vector<ValueId> ids;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      operands.push_back(operand(node, i));
      ids.push_back(node.inputs[i]);
    }
    const Graph& graph = graph_;
    ids_[node.outputs[0]] = compute(
        std::move(operands),
        [&graph, &node, ids](KernelBuilder& k, Operands x) {
          NodeEmitter emitter(k, graph);
          for (std::size_t i = 0; i < ids.size(); ++i) emitter.define(ids[i], x[i]);
          emitter.emit(node);
          return emitter.value(node.outputs[0]);
        },
        is_costly(node.op), compute_dtype(graph_.value(node.outputs[0]).dtype));
  }

  RowValueId in_dtype(RowValueId x, DType dtype) {
    if (at(x).dtype == dtype) return x;
    return compute({x}, [dtype](KernelBuilder& k, Operands v) { return k.cast(v[0], dtype); }, false, dtype);
  }

  // A mean of integers sums in 64 bits; what is no integer is computed in f64.
  RowValueId integer_reduction(OpKind op, RowValueId x) {
    const DType dtype = at(x).dtype;
    switch (op) {
      case OpKind::ReduceMean:
        return in_dtype(mean(in_dtype(x, is_signed_integer(dtype) ? DType::I64 : DType::U64)), dtype);
      case OpKind::ReduceL2:
      case OpKind::ReduceLogSum:
      case OpKind::ReduceLogSumExp:
        return in_dtype(reduction(op, in_dtype(x, DType::F64)), dtype);
      default:
        return reduction(op, x);
    }
  }

  RowValueId reduction(OpKind op, RowValueId x) {
    switch (op) {
      case OpKind::ReduceMean:
        return mean(x);
      case OpKind::ReduceMax:
        return reduce(Combiner::Max, x);
      case OpKind::ReduceMin:
        return reduce(Combiner::Min, x);
      case OpKind::ReduceProd:
        return reduce(Combiner::Prod, x);
      case OpKind::ReduceL1:
        return reduce(Combiner::Sum, compute({x}, [](KernelBuilder&, Operands v) { return abs(v[0]); }));
      case OpKind::ReduceSumSquare:
        return reduce(Combiner::Sum, square(x));
      case OpKind::ReduceL2:
        return compute({reduce(Combiner::Sum, square(x))},
                       [](KernelBuilder&, Operands v) { return sqrt(v[0]); });
      case OpKind::ReduceLogSum:
        return compute({reduce(Combiner::Sum, x)}, [](KernelBuilder&, Operands v) { return log(v[0]); });
      case OpKind::ReduceLogSumExp: {
        // Shifted by the maximum, unless that is infinite.
        const RowValueId shift = compute({reduce(Combiner::Max, x)}, [](KernelBuilder&, Operands v) {
          return select(abs(v[0]) < std::numeric_limits<double>::infinity(), v[0], 0);
        });
        const RowValueId exponential =
            compute({x, shift}, [](KernelBuilder&, Operands v) { return exp(v[0] - v[1]); }, true);
        return compute({shift, reduce(Combiner::Sum, exponential)},
                       [](KernelBuilder&, Operands v) { return v[0] + log(v[1]); });
      }
      default:
        return reduce(Combiner::Sum, x);
    }
  }

  struct SoftmaxParts {
    RowValueId largest, exponential, sum;
  };

  SoftmaxParts softmax_parts(RowValueId x) {
    const RowValueId largest = reduce(Combiner::Max, x);
    const RowValueId exponential =
        compute({x, largest}, [](KernelBuilder&, Operands v) { return exp(v[0] - v[1]); }, true);
    return {largest, exponential, reduce(Combiner::Sum, exponential)};
  }

  void add_softmax(const Node& node) {
    const RowValueId x = operand(node, 0);
    const SoftmaxParts parts = softmax_parts(x);
    if (node.op == OpKind::Softmax) {
      define(node.outputs[0],
             compute({parts.exponential, parts.sum}, [](KernelBuilder&, Operands v) { return v[0] / v[1]; }));
    } else {
      const RowValueId log_sum = compute({parts.sum}, [](KernelBuilder&, Operands v) { return log(v[0]); });
      define(node.outputs[0], compute({x, parts.largest, log_sum},
                                      [](KernelBuilder&, Operands v) { return (v[0] - v[1]) - v[2]; }));
    }
  }

  void add_norm(const Node& node) {
    const RowValueId x = operand(node, 0);
    const double epsilon = number(node, "epsilon");
    RowValueId centred = x, average = -1;
    if (node.op != OpKind::RMSNormalization) {
      average = mean(x);
      centred = compute({x, average}, [](KernelBuilder&, Operands v) { return v[0] - v[1]; });
    }
    const RowValueId inverse = compute({mean(square(centred))}, [epsilon](KernelBuilder&, Operands v) {
      return 1.0 / sqrt(v[0] + epsilon);
    });
    RowValueId y = compute({centred, inverse}, [](KernelBuilder&, Operands v) { return v[0] * v[1]; });
    y = compute({y, operand(node, 1)}, [](KernelBuilder&, Operands v) { return v[0] * v[1]; });
    if (node.inputs.size() > 2 && node.inputs[2]) {
      y = compute({y, operand(node, 2)}, [](KernelBuilder&, Operands v) { return v[0] + v[1]; });
    }
    define(node.outputs[0], y);
    if (node.outputs.size() > 1 && node.outputs[1]) define(node.outputs[1], average);
    if (node.outputs.size() > 2 && node.outputs[2]) define(node.outputs[2], inverse);
  }

  const Graph& graph_;
  const RowSpace& space_;
  std::function<Expr(KernelBuilder&, DType)> count_;
  std::map<ValueId, RowValueId> ids_;
  RowProgram program_;
};

}  // namespace

std::optional<RowSpace> row_space(const Problem& problem) {
  const Node& root = problem.graph.node(problem.root);
  if (contract(root.op).fusion != FusionClass::Rows || !problem.graph.value(root.inputs[0]).shape)
    return std::nullopt;
  auto axes = reduced_axes(problem.graph, root);
  if (!axes || axes->empty()) return std::nullopt;
  return RowSpace{*problem.graph.value(root.inputs[0]).shape, std::move(*axes)};
}

std::optional<RowAlignment> alignment(const Shape& shape, const RowSpace& space) {
  Shape kept, dropped;
  for (std::size_t i = 0; i < space.extents.size(); ++i) {
    const bool is_reduced =
        std::binary_search(space.reduced.begin(), space.reduced.end(), static_cast<int>(i));
    kept.push_back(is_reduced ? Dim(1) : space.extents[i]);
    if (!is_reduced) dropped.push_back(space.extents[i]);
  }
  if (shape == space.extents) return RowAlignment::Full;
  if (shape == kept) return RowAlignment::Kept;
  if (shape == dropped) return RowAlignment::Dropped;
  return std::nullopt;
}

bool broadcasts_over_rows(const Problem& problem, const Node& node, const RowSpace& space) {
  return problem.graph.value(node.outputs[0]).shape->size() == space.extents.size();
}

namespace {

// Without the leading axes a shape broadcasts to what it was.
bool reduces_leading_axes(const RowSpace& space) {
  return space.reduced.back() + 1 == static_cast<int>(space.reduced.size());
}

// A value of fewer axes that a node broadcasts over the last ones must come from outside: one of the Region
// has an element for each row. Nor can it be read in both ways.
bool is_read_across_rows(const Problem& problem, const RowSpace& space) {
  const Graph& graph = problem.graph;
  std::map<ValueId, bool> broadcast;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (contract(node.op).fusion != FusionClass::Elementwise) continue;
    const bool whole = broadcasts_over_rows(problem, node, space);
    for (const ValueId input : node.inputs) {
      if (!input || graph.value(input).shape->size() >= space.extents.size()) continue;
      if (graph.value(input).shape->empty()) continue;
      if (whole && graph.value(input).producer) return true;
      if (broadcast.emplace(input, whole).first->second != whole) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> why_no_row_program(const Problem& problem, const RowSpace& space) {
  const Graph& graph = problem.graph;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const bool elementwise = contract(node.op).fusion == FusionClass::Elementwise;
    if (elementwise) {
      if (auto reason = why_not_emittable(graph, node)) return reason;
      if (may_divide_by_zero(graph, node)) return fmt::format("{} by integers that may be 0", name(node.op));
    } else {
      const auto axes = graph.value(node.inputs[0]).shape ? reduced_axes(graph, node) : std::nullopt;
      if (!axes) return fmt::format("{} is no row operator of this template", name(node.op));
      if (*axes != space.reduced || *graph.value(node.inputs[0]).shape != space.extents)
        return "its rows differ";
      const DType dtype = graph.value(node.inputs[0]).dtype;
      if (dtype == DType::I1) return fmt::format("{} of {}", name(node.op), name(dtype));
      if (is_float(dtype) && bits(dtype) < 16) return fmt::format("{} of {}", name(node.op), name(dtype));
    }
    for (const ValueId output : node.outputs) {
      if (!output) continue;
      if (!graph.value(output).shape) return "the rank is unknown before running";
      if (!alignment(*graph.value(output).shape, space)) return "a value is neither the rows' nor one a row";
    }
  }
  if (!reduces_leading_axes(space) && is_read_across_rows(problem, space))
    return "a value of one row is read by others";
  return std::nullopt;
}

RowProgram row_program(const Problem& problem, const RowSpace& space, const std::vector<bool>& input_is_full,
                       const std::function<Expr(KernelBuilder&, DType)>& count) {
  return RowProgramBuilder(problem, space, input_is_full, count).finish();
}

}  // namespace kiln::templates
