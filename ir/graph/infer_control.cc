// Operators that run Graphs of their own.
#include <algorithm>
#include <set>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

const Graph& body_of(const Inference& op, const Node& node, std::string_view attribute) {
  const auto& body = std::get<std::shared_ptr<Graph>>(node.attributes.find(attribute)->second);
  if (body == nullptr || body->inputs.size() < body->captures) {
    op.fail(ErrorCode::InvalidModel, "attribute \"{}\" holds no graph", attribute);
  }
  return *body;
}

// Throws unless the node lists `expected` inputs.
void expect_inputs(const Inference& op, const Node& node, std::size_t expected) {
  if (node.inputs.size() != expected) {
    op.fail(ErrorCode::InvalidModel, "got {} inputs, its graphs ask for {}", node.inputs.size(), expected);
  }
}

// A body as the node sees it: Symbols of the body that stand for extents of Values outside become these.
class Body {
 public:
  // `arguments`: the Value outside that each input of the body is; none where it changes from one execution
  // of the body to the next.
  Body(Inference& op, const Graph& graph, std::vector<ValueId> arguments)
      : op_(op), graph_(graph), arguments_(std::move(arguments)) {
    if (arguments_.size() != graph.inputs.size()) {
      op.fail(ErrorCode::InvalidModel, "graph \"{}\" has {} inputs, the node gives {}", graph.name,
              graph.inputs.size(), arguments_.size());
    }
  }

  const Graph& graph() const { return graph_; }
  const Value& output(std::size_t index) const { return graph_.value(graph_.outputs[index]); }
  const Value& input(std::size_t index) const { return graph_.value(graph_.inputs[index]); }

  // The extent outside, if it is the same in every execution and known there.
  std::optional<Dim> outside(const Dim& dim) const {
    bool known = true;
    const Dim result = dim.substitute([&](SymbolId id) -> Dim {
      const std::optional<Dim> extent = outside(graph_.symbols[id.index].source);
      if (!extent) known = false;
      return extent.value_or(Dim(1));
    });
    return known ? std::optional(result) : std::nullopt;
  }

  // The shape of output `index` of the node, which leaves as `result` what came in as `entering` and began as
  // `initial`: extents that the body keeps are those of the initial value, even if it never runs. Before the
  // body's axes the initial value has `leading` ones of its own, which stay.
  std::optional<Shape> carried(const Value& initial, const Value& entering, const Value& result,
                               std::size_t index, std::size_t leading = 0) const {
    if (!result.shape || !entering.shape || !initial.shape ||
        entering.shape->size() != result.shape->size() ||
        initial.shape->size() != leading + result.shape->size()) {
      return std::nullopt;
    }
    Shape shape = *initial.shape;
    for (std::size_t axis = 0; axis < result.shape->size(); ++axis) {
      const bool kept = (*result.shape)[axis] == (*entering.shape)[axis];
      if (!kept) shape[leading + axis] = op_.fresh(index, leading + axis);
    }
    return shape;
  }

  // The shape of output `index` of the node, if every execution gives the shape of `value`.
  std::optional<Shape> outside(const Value& value, std::size_t index, std::size_t first_axis = 0) const {
    if (!value.shape) return std::nullopt;
    Shape shape;
    for (const Dim& dim : *value.shape) {
      shape.push_back(outside(dim).value_or(Dim(-1)));
      if (shape.back() == Dim(-1)) shape.back() = op_.fresh(index, first_axis + shape.size() - 1);
    }
    return shape;
  }

 private:
  std::optional<Dim> outside(const SymbolSource& source) const {
    if (source.kind != SymbolSource::Kind::InputDim) return std::nullopt;
    const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), source.value);
    if (input == graph_.inputs.end()) return std::nullopt;
    const ValueId argument = arguments_[static_cast<std::size_t>(input - graph_.inputs.begin())];
    if (!argument) return std::nullopt;
    const auto& shape = op_.graph().value(argument).shape;
    const auto axis = static_cast<std::size_t>(source.index);
    if (!shape || axis >= shape->size()) return std::nullopt;
    return (*shape)[axis];
  }

  Inference& op_;
  const Graph& graph_;
  std::vector<ValueId> arguments_;
};

void set_type(Inference& op, std::size_t index, const Value& like) {
  if (!op.has_output(index)) return;
  op.output(index).dtype = like.dtype;
  op.output(index).container = like.container;
}

void expect_outputs(Inference& op, const Graph& body, std::size_t expected) {
  if (body.outputs.size() != expected) {
    op.fail(ErrorCode::InvalidModel, "graph \"{}\" has {} outputs, expected {}", body.name,
            body.outputs.size(), expected);
  }
}

// The last `count` inputs of the node.
std::vector<ValueId> last_inputs(const Node& node, std::size_t count) {
  return {node.inputs.end() - static_cast<std::ptrdiff_t>(count), node.inputs.end()};
}

// Where two executions may give one or the other.
Container either(Inference& op, std::size_t index, const Value& a, const Value& b) {
  if (a.dtype != b.dtype || certain(a.container) != certain(b.container)) {
    op.fail(ErrorCode::TypeMismatch, "output {} is a {} of {} in one case and a {} of {} in another", index,
            name(a.container), name(a.dtype), name(b.container), name(b.dtype));
  }
  return certain(a.container) == a.container ? b.container : a.container;
}

// The number of times that a Loop runs, if only M decides and it is known.
std::optional<Dim> trip_count(const Inference& op, const Body& body) {
  const auto times = op.elements(0);
  if (!times || times->size() != 1 || !times->front().is_at_least(0)) return std::nullopt;
  const auto always = [](const std::optional<std::vector<Dim>>& elements) {
    return elements && elements->size() == 1 && elements->front() == Dim(1);
  };
  if (op.has_input(1) && !always(op.elements(1))) return std::nullopt;
  const bool passed_on = body.graph().outputs[0] == body.graph().inputs[1];
  if (!passed_on && !always(body.output(0).elements)) return std::nullopt;
  return times->front();
}

}  // namespace

void infer_if(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Graph& otherwise = body_of(op, node, "else_branch");
  const Graph& then = body_of(op, node, "then_branch");
  const std::size_t else_captures = otherwise.captures, then_captures = then.captures;
  expect_inputs(op, node, 1 + else_captures + then_captures);
  const auto first = node.inputs.begin() + 1, middle = first + static_cast<std::ptrdiff_t>(else_captures);
  const Body else_body(op, otherwise, {first, middle}), then_body(op, then, {middle, node.inputs.end()});
  expect_outputs(op, otherwise, node.outputs.size());
  expect_outputs(op, then, node.outputs.size());
  const auto condition = op.elements(0);
  const bool known = condition && condition->size() == 1 && condition->front().is_constant();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& a = then_body.output(i);
    const Value& b = else_body.output(i);
    set_type(op, i, a);
    if (op.has_output(i)) op.output(i).container = either(op, i, a, b);
    if (known) {
      const bool taken = condition->front() != Dim(0);
      op.set_shape(i, taken ? then_body.outside(a, i) : else_body.outside(b, i));
      continue;
    }
    if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) continue;
    Shape shape;
    for (std::size_t axis = 0; axis < a.shape->size(); ++axis) {
      const auto one = then_body.outside((*a.shape)[axis]), other = else_body.outside((*b.shape)[axis]);
      shape.push_back(one && other && *one == *other ? *one : op.fresh(i, axis));
    }
    op.set_shape(i, std::move(shape));
  }
}

void infer_loop(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Graph& inner = body_of(op, node, "body");
  if (inner.inputs.size() < 2 + inner.captures) {
    op.fail(ErrorCode::InvalidModel, "graph \"{}\" has fewer than two inputs", inner.name);
  }
  expect_inputs(op, node, inner.inputs.size());
  const std::size_t carried = inner.inputs.size() - inner.captures - 2;
  std::vector<ValueId> arguments(2 + carried);
  const std::vector<ValueId> captured = last_inputs(node, inner.captures);
  arguments.insert(arguments.end(), captured.begin(), captured.end());
  const Body body(op, inner, std::move(arguments));
  if (inner.outputs.size() < 1 + carried) expect_outputs(op, inner, 1 + carried);
  expect_outputs(op, inner, 1 + node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& result = body.output(1 + i);
    set_type(op, i, result);
    if (i >= carried) {
      const std::optional<Dim> times = trip_count(op, body);
      if (auto shape = body.outside(result, i, 1)) {
        shape->insert(shape->begin(), times ? *times : op.fresh(i, 0));
        op.set_shape(i, std::move(shape));
      }
      continue;
    }
    const Value& initial = op.input(2 + i);
    if (op.has_output(i)) op.output(i).container = either(op, i, initial, result);
    op.set_shape(i, body.carried(initial, body.input(2 + i), result, i));
  }
}

void infer_scan_loop(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Graph& inner = body_of(op, node, "body");
  const bool batched = integer(node, "batched") != 0;
  const std::size_t leading = batched ? 1 : 0;  // sequence_lens
  const std::int64_t scanned_count = integer(node, "num_scan_inputs");
  const std::size_t given = inner.inputs.size() - inner.captures;
  expect_inputs(op, node, leading + inner.inputs.size());
  if (scanned_count < 1 || static_cast<std::size_t>(scanned_count) > given) {
    op.fail(ErrorCode::InvalidModel, "num_scan_inputs is {}, expected a number from 1 to {}", scanned_count,
            given);
  }
  const std::size_t states = given - static_cast<std::size_t>(scanned_count);
  std::vector<ValueId> arguments(given);
  const std::vector<ValueId> captured = last_inputs(node, inner.captures);
  arguments.insert(arguments.end(), captured.begin(), captured.end());
  const Body body(op, inner, std::move(arguments));
  expect_outputs(op, inner, node.outputs.size());
  if (inner.outputs.size() < states) expect_outputs(op, inner, states);

  std::optional<Dim> length, batch;
  const std::optional<Shape>& first = op.shape(leading + states);
  if (batched && first && first->size() >= 2) {
    batch = first->front();
    length = (*first)[1];
  } else if (!batched && first && !first->empty()) {
    const auto axes =
        has(node, "scan_input_axes") ? integers(node, "scan_input_axes") : std::span<const std::int64_t>();
    length = (*first)[op.normalized(axes.empty() ? 0 : axes[0], first->size(), "scan_input_axes")];
  }
  const auto output_axes =
      has(node, "scan_output_axes") ? integers(node, "scan_output_axes") : std::span<const std::int64_t>();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& result = body.output(i);
    set_type(op, i, result);
    if (i < states) {
      op.set_shape(i, body.carried(op.input(leading + i), body.input(i), result, i, leading));
      continue;
    }
    if (!result.shape) continue;
    const std::size_t rank = result.shape->size() + 1;
    const std::size_t walked = i - states < output_axes.size()
                                   ? op.normalized(output_axes[i - states], rank, "scan_output_axes")
                                   : 0;
    Shape shape;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::size_t inner_axis = axis < walked ? axis : axis - 1;
      const std::optional<Dim> extent = axis == walked ? length : body.outside((*result.shape)[inner_axis]);
      shape.push_back(extent ? *extent : op.fresh(i, leading + axis));
    }
    if (batched) shape.insert(shape.begin(), batch ? *batch : op.fresh(i, 0));
    op.set_shape(i, std::move(shape));
  }
}

void infer_sequence_map(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Graph& inner = body_of(op, node, "body");
  expect_inputs(op, node, inner.inputs.size());
  expect_outputs(op, inner, node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& result = inner.value(inner.outputs[i]);
    if (result.container != Container::Tensor) {
      op.fail(ErrorCode::TypeMismatch, "output {} of graph \"{}\" is a {}, expected a tensor", i, inner.name,
              name(result.container));
    }
    set_type(op, i, result);
    if (op.has_output(i)) op.output(i).container = Container::Sequence;
  }
}

void infer_greedy_search(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Graph& first = body_of(op, node, "init_decoder");
  const Graph& next = body_of(op, node, "decoder");
  constexpr std::size_t kOperands = 7, kInputs = 3;  // of the node; of a decoder before its pasts
  expect_inputs(op, node, kOperands + first.captures + next.captures);
  for (const Graph* decoder : {&first, &next}) {
    if (decoder->inputs.size() != next.inputs.size() - next.captures + decoder->captures ||
        decoder->inputs.size() <= kInputs + decoder->captures) {
      op.fail(ErrorCode::InvalidModel, "graph \"{}\" has {} inputs, the decoder {}", decoder->name,
              decoder->inputs.size() - decoder->captures, next.inputs.size() - next.captures);
    }
    expect_outputs(op, *decoder, decoder->inputs.size() - decoder->captures - kInputs + 1);
  }
  const auto& prompt = op.shape_of_rank(0, 2, 2);
  const auto length = op.elements(1);
  Shape shape;
  shape.push_back(prompt ? prompt->front() : op.fresh(0, 0));
  shape.push_back(length && length->size() == 1 ? length->front() : op.fresh(0, 1));
  op.set_shape(0, std::move(shape));
}

}  // namespace kiln::graph
