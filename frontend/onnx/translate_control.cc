// Translators: operators that run Graphs of their own, sequences and optionals.
#include <algorithm>

#include <onnx/onnx_pb.h>

#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"
#include "ir/graph/contract.h"

namespace kiln::frontend::translate {
namespace {

using graph::Dim;
using graph::Shape;
using graph::Value;

Formal like(const Translation& node, ValueId id) {
  if (!id) node.invalid("a value that is carried into the graph is missing");
  const Value& value = node.graph.value(id);
  return {value.dtype, value.container, value.shape};
}

// A value that each execution of a body takes and gives; `input` and `output` count those of the body.
struct Carried {
  std::size_t input, output;
};

// Notes every number among the extents of carried inputs as changing; false if there is none.
bool open_all(const std::vector<Formal>& formals, std::span<const Carried> carried,
              ChangingExtents& changing) {
  const std::size_t before = changing.size();
  for (const Carried& value : carried) {
    const auto& shape = formals[value.input].shape;
    for (std::size_t axis = 0; shape && axis < shape->size(); ++axis) {
      if ((*shape)[axis].is_constant()) changing.emplace(value.input, axis);
    }
  }
  return changing.size() > before;
}

// The body with its carried inputs as general as its outputs ask for: it is imported with the extents of the
// first execution, and again while a result differs.
Body import_steady(Translation& node, std::vector<Formal> formals, std::span<const Carried> carried) {
  ChangingExtents& changing = node.bodies->changing_extents("body");
  while (true) {
    for (const auto& [input, axis] : changing) {
      if (axis == kAnyRank) formals[input].shape.reset();
      if (axis == kMaybeNothing) formals[input].container = graph::maybe(formals[input].container);
      if (formals[input].shape && axis < formals[input].shape->size())
        (*formals[input].shape)[axis] = kOpenExtent;
    }
    Body body;
    try {
      body = node.bodies->import_body("body", formals);
    } catch (const Error&) {
      // The extents of the first execution may be impossible in the body's other branches or later ones.
      if (!open_all(formals, carried, changing)) throw;
      continue;
    }
    bool steady = true;
    const auto change = [&](std::size_t input, std::size_t axis) {
      steady = false;
      changing.emplace(input, axis);
    };
    for (const auto& [input, output] : carried) {
      if (output >= body.graph->outputs.size())
        node.invalid("the graph has fewer outputs than it carries values");
      const Value& result = body.graph->value(body.graph->outputs[output]);
      const Value& entering = body.graph->value(body.graph->inputs[input]);
      if (graph::maybe(result.container) != graph::maybe(entering.container) ||
          result.dtype != entering.dtype) {
        node.invalid(fmt::format("a carried value is a {} of {} and becomes a {} of {}",
                                 name(entering.container), name(entering.dtype), name(result.container),
                                 name(result.dtype)));
      }
      if (result.container != entering.container && entering.container != graph::maybe(entering.container)) {
        change(input, kMaybeNothing);
      }
      if (!entering.shape) continue;
      if (!result.shape || result.shape->size() != entering.shape->size()) {
        change(input, kAnyRank);
        continue;
      }
      for (std::size_t axis = 0; axis < entering.shape->size(); ++axis) {
        const Dim& extent = (*entering.shape)[axis];
        if (extent.is_constant() && extent != (*result.shape)[axis]) change(input, axis);
      }
    }
    if (steady) return body;
  }
}

void finish_control(Translation& node, OpKind kind, std::vector<ValueId> operands, Body body) {
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  node.attributes["body"] = std::move(body.graph);
  node.finish(kind, std::move(operands));
}

// The value itself, of whatever container, as output `index`.
void finish_as(Translation& node, std::size_t index, ValueId value) {
  switch (node.graph.value(value).container) {
    case Container::Tensor:
      return node.finish_output(index, OpKind::Identity, {value});
    case Container::Optional:
    case Container::OptionalSequence:
      return node.finish_output(index, OpKind::Optional, {value});
    case Container::Sequence:
    case Container::Map:
    case Container::MapSequence:
      return node.finish_output(index, OpKind::OptionalGetElement, {value});
  }
}

// A truth value that is known before running.
std::optional<bool> known_condition(const Translation& node, ValueId id) {
  const auto& elements = node.graph.value(id).elements;
  if (!elements || elements->size() != 1 || !elements->front().is_constant()) return std::nullopt;
  return elements->front().constant() != 0;
}

// An attribute that stays; null if it is absent or of another type.
template <typename T>
const T* find_attribute(const Translation& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

void identity(Translation& node) { finish_as(node, 0, node.input(0)); }

void branch(Translation& node) {
  const ValueId condition = node.input(0);
  if (const std::optional<bool> known = known_condition(node, condition)) {
    const std::vector<ValueId> values = node.bodies->inline_body(*known ? "then_branch" : "else_branch", {});
    if (values.size() < node.outputs.size()) {
      node.invalid(fmt::format("it has {} outputs, the branch {}", node.outputs.size(), values.size()));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!values[i]) node.invalid(fmt::format("the branch does not give output {}", i));
      finish_as(node, i, values[i]);
    }
    return;
  }
  std::vector<ValueId> operands = {condition};
  for (const std::string_view branch : {"else_branch", "then_branch"}) {
    Body body = node.bodies->import_body(branch, {});
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    node.attributes.emplace(branch, std::move(body.graph));
  }
  const auto& then = std::get<std::shared_ptr<graph::Graph>>(node.attributes.find("then_branch")->second);
  node.outputs.resize(std::max(node.outputs.size(), then->outputs.size()));
  node.finish(OpKind::If, std::move(operands));
}

void loop(Translation& node) {
  std::vector<ValueId> operands = node.inputs;
  operands.resize(std::max<std::size_t>(operands.size(), 2));
  // Both are scalars, but for bodies that declare vectors of one element.
  const std::vector<Formal> declared = node.bodies->declared_inputs("body");
  const auto counter = [&](std::size_t input, DType dtype) -> Formal {
    const bool vector =
        input < declared.size() && declared[input].shape && declared[input].shape->size() == 1;
    return {dtype, Container::Tensor, vector ? Shape{1} : Shape{}};
  };
  std::vector<Formal> formals = {counter(0, DType::I64), counter(1, DType::I1)};
  std::vector<Carried> carried;
  for (std::size_t i = 2; i < operands.size(); ++i) {
    formals.push_back(like(node, operands[i]));
    carried.push_back({i, i - 1});
  }
  Body body = import_steady(node, std::move(formals), carried);
  if (body.graph->outputs.empty()) node.invalid("the graph gives no condition");
  node.outputs.resize(std::max(node.outputs.size(), body.graph->outputs.size() - 1));
  finish_control(node, OpKind::Loop, std::move(operands), std::move(body));
}

namespace {

// `leading`: inputs of the node before the states.
void scan_with(Translation& node, std::size_t leading) {
  const auto* count = find_attribute<std::int64_t>(node, "num_scan_inputs");
  std::vector<ValueId> operands = node.inputs;
  if (count == nullptr || *count < 1 || static_cast<std::size_t>(*count) + leading > operands.size()) {
    node.invalid("attribute 'num_scan_inputs' must be a number from 1 to the number of scanned inputs");
  }
  const std::size_t states = operands.size() - leading - static_cast<std::size_t>(*count);
  const auto* axes = find_attribute<std::vector<std::int64_t>>(node, "scan_input_axes");
  std::vector<Formal> formals;
  std::vector<Carried> carried;
  for (std::size_t i = 0; i < operands.size() - leading; ++i) {
    Formal formal = like(node, operands[leading + i]);
    if (i < states) carried.push_back({i, i});
    const auto drop = [&](std::int64_t axis) {
      if (!formal.shape) return;
      const auto rank = static_cast<std::int64_t>(formal.shape->size());
      if (axis < -rank || axis >= rank)
        node.invalid(fmt::format("input {} has no axis {}", leading + i, axis));
      formal.shape->erase(formal.shape->begin() + (axis < 0 ? axis + rank : axis));
    };
    if (leading > 0) drop(0);  // the batch
    if (i >= states) drop(axes != nullptr && i - states < axes->size() ? (*axes)[i - states] : 0);
    formals.push_back(std::move(formal));
  }
  Body body = import_steady(node, std::move(formals), carried);
  node.outputs.resize(std::max(node.outputs.size(), body.graph->outputs.size()));
  finish_control(node, OpKind::Scan, std::move(operands), std::move(body));
}

}  // namespace

void scan(Translation& node) { scan_with(node, 0); }

void scan_8(Translation& node) {
  node.attributes["batched"] = std::int64_t{1};
  if (const auto directions = node.take_integers("directions"))
    node.attributes["scan_input_directions"] = *directions;
  scan_with(node, 1);
}

void sequence_map(Translation& node) {
  std::vector<ValueId> operands = node.inputs;
  std::vector<Formal> formals;
  for (const ValueId id : operands) {
    Formal formal = like(node, id);
    if (formal.container == Container::Sequence) formal.container = Container::Tensor;
    formals.push_back(std::move(formal));
  }
  Body body = node.bodies->import_body("body", formals);
  node.outputs.resize(std::max(node.outputs.size(), body.graph->outputs.size()));
  finish_control(node, OpKind::SequenceMap, std::move(operands), std::move(body));
}

// The decoder of one step takes the prompt too where no other is given for it.
void greedy_search(Translation& node) {
  if (const std::int64_t type = node.take_integer("model_type", 0); type != 0) {
    node.unsupported(fmt::format("model_type {} (0, a decoder like GPT-2, is)", type));
  }
  for (const char* ignored : {"vocab_size", "decoder_start_token_id"}) node.take_integer(ignored);
  constexpr std::size_t kOperands = 7;
  std::vector<ValueId> operands = node.inputs;
  operands.resize(kOperands);
  const auto import = [&](std::string_view attribute, std::string_view source, std::int64_t tokens) {
    std::vector<Formal> formals = node.bodies->declared_inputs(source);
    for (std::size_t i = 0; i < formals.size(); ++i) {
      const Dim given = tokens < 0 ? kOpenExtent : Dim(tokens);
      if (i < 3) {
        formals[i] = {DType::I32, Container::Tensor, Shape{kOpenExtent, i < 2 ? given : kOpenExtent}};
        continue;
      }
      const auto& shape = formals[i].shape;
      if (!shape || shape->size() != 5 || !(*shape)[2].is_constant() || !(*shape)[4].is_constant()) {
        node.invalid(fmt::format(
            "input {} of '{}' must declare 2 x batch x heads x length x size, heads and size numbers", i,
            source));
      }
      formals[i].shape = Shape{2, kOpenExtent, (*shape)[2], kOpenExtent, (*shape)[4]};
    }
    Body body = node.bodies->import_body(source, formals);
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    node.attributes.emplace(attribute, std::move(body.graph));
  };
  import("init_decoder", node.bodies->has("init_decoder") ? "init_decoder" : "decoder", -1);
  import("decoder", "decoder", 1);
  node.finish(OpKind::GreedySearch, std::move(operands));
}

void sequence_empty(Translation& node) {
  const std::int64_t type = node.take_integer("dtype", onnx::TensorProto::FLOAT);
  node.finish(
      OpKind::SequenceEmpty, {},
      {{"dtype", static_cast<std::int64_t>(require_dtype(static_cast<std::int32_t>(type), "dtype"))}});
}

void optional(Translation& node) {
  Attributes type;
  if (const auto declared = node.take_integers("type")) {
    type = {{"dtype", declared->at(0)}, {"sequence", declared->at(1)}};
  }
  node.finish(OpKind::Optional, {node.optional_input(0)}, std::move(type));
}

}  // namespace kiln::frontend::translate
