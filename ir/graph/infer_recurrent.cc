// RNN, GRU and LSTM.
#include <algorithm>
#include <cctype>
#include <string>

#include "ir/base/errors.h"
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// An extent that several operands share: the first that tells it sets it, the others must agree.
class SharedExtent {
 public:
  SharedExtent(Inference& op, std::string_view what) : op_(op), what_(what) {}

  // Axis `axis` of input `operand`, which has `rank` axes, is `factor` times this extent.
  void meet(std::size_t operand, std::size_t rank, std::size_t axis, std::int64_t factor = 1) {
    if (!op_.has_input(operand)) return;
    if (const std::optional<Shape>& shape = op_.shape_of_rank(operand, rank, rank)) {
      meet((*shape)[axis], factor);
    }
  }
  void meet(const Dim& extent, std::int64_t factor = 1) {
    if (!dim_) {
      dim_ = factor == 1 ? extent : floordiv(extent, factor);
    } else {
      op_.same(*dim_ * factor, extent, what_);
    }
  }

  // As axis `axis` of output `operand`: only running tells it if no operand does.
  Dim at(std::size_t operand, std::size_t axis) { return dim_ ? *dim_ : op_.fresh(operand, axis); }

 private:
  Inference& op_;
  std::string_view what_;
  std::optional<Dim> dim_;
};

std::int64_t directions(const Inference& op, const Node& node) {
  const std::string& direction = text(node, "direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    op.fail(ErrorCode::InvalidModel,
            "direction is \"{}\", expected \"forward\", \"reverse\" or \"bidirectional\"", direction);
  }
  return direction == "bidirectional" ? 2 : 1;
}

void check_activations(const Inference& op, const Node& node, std::size_t expected) {
  constexpr std::string_view kKnown[] = {"affine",   "elu",        "hardsigmoid",    "leakyrelu",
                                         "relu",     "scaledtanh", "sigmoid",        "softplus",
                                         "softsign", "tanh",       "thresholdedrelu"};
  if (!has(node, "activations")) return;
  const auto& names = std::get<std::vector<std::string>>(node.attributes.at("activations"));
  if (names.size() < expected) {
    op.fail(ErrorCode::InvalidModel, "it has {} activations, expected at least {}", names.size(), expected);
  }
  for (const std::string& given : names) {
    std::string lower = given;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (std::find(std::begin(kKnown), std::end(kKnown), lower) == std::end(kKnown)) {
      op.fail(ErrorCode::InvalidModel, "activation \"{}\" is unknown, expected one of {}", given,
              fmt::join(kKnown, ", "));
    }
  }
}

struct Operands {
  std::int64_t gates;
  std::size_t activations;             // for each direction
  std::size_t hidden_axis, rows_axis;  // of W and R: the input (hidden) size, and gates x hidden size
  std::size_t peepholes;               // the input that holds them, or none (kNone)
};
constexpr std::size_t kNone = SIZE_MAX;

// X, W, R, B, sequence_lens, initial_h and, for an LSTM, initial_c and P -> Y, Y_h, Y_c
void infer(Graph& graph, Node& node, const Operands& operands) {
  Inference op(graph, node);
  const std::int64_t count = directions(op, node), layout = integer(node, "layout");
  if (layout != 0 && layout != 1) op.fail(ErrorCode::InvalidModel, "layout is {}, expected 0 or 1", layout);
  if (has(node, "clip") && !(number(node, "clip") > 0)) {
    op.fail(ErrorCode::InvalidModel, "clip is {}, expected a positive number", number(node, "clip"));
  }
  check_activations(op, node, operands.activations * static_cast<std::size_t>(count));
  const bool batch_first = layout == 1;
  SharedExtent hidden(op, "hidden size"), batch(op, "batch"), steps(op, "sequence length");
  SharedExtent input(op, "input size"), direction(op, "number of directions");
  direction.meet(Dim(count));
  if (has(node, "hidden_size")) {
    if (integer(node, "hidden_size") < 0) {
      op.fail(ErrorCode::InvalidModel, "hidden_size is {}", integer(node, "hidden_size"));
    }
    hidden.meet(Dim(integer(node, "hidden_size")));
  }
  hidden.meet(2, 3, operands.hidden_axis);
  for (const std::size_t weights : {1, 2}) {
    hidden.meet(weights, 3, operands.rows_axis, operands.gates);
    direction.meet(weights, 3, 0);
  }
  hidden.meet(3, 2, 1, 2 * operands.gates);
  direction.meet(3, 2, 0);
  steps.meet(0, 3, batch_first ? 1 : 0);
  batch.meet(0, 3, batch_first ? 0 : 1);
  input.meet(0, 3, 2);
  input.meet(1, 3, operands.hidden_axis);
  batch.meet(4, 1, 0);
  const std::size_t last_state = operands.gates == 4 ? 6 : 5;
  for (std::size_t state = 5; state <= last_state; ++state) {
    batch.meet(state, 3, batch_first ? 0 : 1);
    direction.meet(state, 3, batch_first ? 1 : 0);
    hidden.meet(state, 3, 2);
  }
  if (operands.peepholes != kNone) {
    direction.meet(operands.peepholes, 2, 0);
    hidden.meet(operands.peepholes, 2, 1, 3);
  }
  if (batch_first) {
    op.set_shape(0, Shape{batch.at(0, 0), steps.at(0, 1), count, hidden.at(0, 3)});
  } else {
    op.set_shape(0, Shape{steps.at(0, 0), count, batch.at(0, 2), hidden.at(0, 3)});
  }
  for (const std::size_t state : {1, 2}) {
    if (batch_first) {
      op.set_shape(state, Shape{batch.at(state, 0), count, hidden.at(state, 2)});
    } else {
      op.set_shape(state, Shape{count, batch.at(state, 1), hidden.at(state, 2)});
    }
  }
}

}  // namespace

void infer_recurrent(Graph& graph, Node& node) {
  const bool lstm = node.op == OpKind::LSTM, gru = node.op == OpKind::GRU;
  infer(graph, node,
        {.gates = lstm  ? 4
                  : gru ? 3
                        : 1,
         .activations = lstm  ? std::size_t{3}
                        : gru ? std::size_t{2}
                              : std::size_t{1},
         .hidden_axis = 2,
         .rows_axis = 1,
         .peepholes = lstm ? 7 : kNone});
}

// Its weights are transposed. Scales and zero points follow the operands of LSTM.
void infer_dynamic_quantize_lstm(Graph& graph, Node& node) {
  infer(graph, node, {.gates = 4, .activations = 3, .hidden_axis = 1, .rows_axis = 2, .peepholes = 7});
}

}  // namespace kiln::graph
