// Sequences and optionals. The tensors of a sequence may have any shape, so what is taken out has none before
// running.
#include "ir/graph/contract.h"
#include "ir/graph/infer.h"

namespace kiln::graph {

Container certain(Container container) {
  return container == Container::Optional           ? Container::Tensor
         : container == Container::OptionalSequence ? Container::Sequence
                                                    : container;
}

Container maybe(Container container) {
  return container == Container::Tensor     ? Container::Optional
         : container == Container::Sequence ? Container::OptionalSequence
                                            : container;
}

void infer_sequence(Graph&, Node&) {}

void infer_sequence_empty(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, op.dtype_attribute("dtype"));
}

void infer_sequence_length(Graph& graph, Node& node) { Inference(graph, node).set_shape(0, Shape{}); }

void infer_optional(Graph& graph, Node& node) {
  Inference op(graph, node);
  if (!op.has_input(0)) {
    if (!has(node, "dtype"))
      op.fail(ErrorCode::InvalidModel, "without an input, attribute \"dtype\" is needed");
    op.set_dtype(0, op.dtype_attribute("dtype"));
    op.output(0).container =
        integer(node, "sequence") != 0 ? Container::OptionalSequence : Container::Optional;
    return;
  }
  op.set_dtype(0, op.input(0).dtype);
  op.output(0).container = maybe(op.input(0).container);
}

void infer_optional_has_element(Graph& graph, Node& node) { Inference(graph, node).set_shape(0, Shape{}); }

void infer_optional_get_element(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Value& input = op.input(0);
  op.set_dtype(0, input.dtype);
  op.output(0).container = certain(input.container);
  op.set_shape(0, input.shape);
}

}  // namespace kiln::graph
