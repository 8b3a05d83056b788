// Operators of ai.onnx.ml. What the kernels trust of long lists of attributes is checked here.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// Rows of an input of [N, F] or [F].
Dim rows(Inference& op, std::size_t output) {
  const std::optional<Shape>& x = op.shape_of_rank(0, 1, 2);
  if (!x) return op.fresh(output, 0);
  return x->size() == 2 ? (*x)[0] : Dim(1);
}

void expect_features(Inference& op, std::int64_t features) {
  if (const std::optional<Shape>& x = op.shape_of_rank(0, 1, 2)) {
    op.same(x->back(), features, "features of the input and of the model");
  }
}

void expect_count(const Inference& op, std::string_view what, std::size_t got, std::size_t expected) {
  if (got != expected) {
    op.fail(ErrorCode::InvalidModel, "{} has {} entries, expected {}", what, got, expected);
  }
}

void check_kernel(const Inference& op, const Node& node) {
  const std::string& type = text(node, "kernel_type");
  if (type != "LINEAR" && type != "POLY" && type != "RBF" && type != "SIGMOID") {
    op.fail(ErrorCode::InvalidModel, "kernel_type is \"{}\", expected LINEAR, POLY, RBF or SIGMOID", type);
  }
  if (has(node, "kernel_params") && !numbers(node, "kernel_params").empty()) {
    expect_count(op, "kernel_params", numbers(node, "kernel_params").size(), 3);
  }
}

// Offsets of consecutive ranges of a list of `size` entries.
void check_starts(const Inference& op, std::string_view what, std::span<const std::int64_t> starts,
                  std::size_t size) {
  if (starts.empty() || starts.front() != 0 || starts.back() != static_cast<std::int64_t>(size) ||
      !std::is_sorted(starts.begin(), starts.end())) {
    op.fail(ErrorCode::InvalidModel, "{} must rise from 0 to {}", what, size);
  }
}

void check_range(const Inference& op, std::string_view what, std::span<const std::int64_t> values,
                 std::int64_t low, std::int64_t high) {
  for (const std::int64_t value : values) {
    if (value < low || value > high) {
      op.fail(ErrorCode::InvalidModel, "{} has the entry {}, expected {} to {}", what, value, low, high);
    }
  }
}

// Every path ends at a leaf. Subtrees may be shared.
void check_acyclic(const Inference& op, std::span<const std::int64_t> yes, std::span<const std::int64_t> no) {
  enum class State : std::uint8_t { New, Open, Done };
  std::vector<State> states(yes.size(), State::New);
  std::vector<std::size_t> path;
  for (std::size_t start = 0; start < yes.size(); ++start) {
    if (states[start] == State::New) path.push_back(start);
    while (!path.empty()) {
      const std::size_t node = path.back();
      if (states[node] != State::New) {
        states[node] = State::Done;
        path.pop_back();
        continue;
      }
      states[node] = State::Open;
      for (const std::int64_t child : {yes[node], no[node]}) {
        if (child < 0) continue;
        const State state = states[static_cast<std::size_t>(child)];
        if (state == State::Open)
          op.fail(ErrorCode::InvalidModel, "the trees have a cycle through node {}", child);
        if (state == State::New) path.push_back(static_cast<std::size_t>(child));
      }
    }
  }
}

}  // namespace

void infer_label_encoder(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Tensor &keys = tensor(node, "keys"), &values = tensor(node, "values"),
               &fallback = tensor(node, "fallback");
  if (keys.elements() != values.elements()) {
    op.fail(ErrorCode::InvalidModel, "got {} keys and {} values, expected as many", keys.elements(),
            values.elements());
  }
  if (fallback.elements() != 1) op.fail(ErrorCode::InvalidModel, "the default value must have one element");
  if (keys.dtype() != op.input(0).dtype) {
    op.fail(ErrorCode::TypeMismatch, "the keys are {}, the input is {}; expected the same",
            name(keys.dtype()), name(op.input(0).dtype));
  }
  if (fallback.dtype() != values.dtype()) {
    op.fail(ErrorCode::TypeMismatch, "the default value is {}, the values are {}; expected the same",
            name(fallback.dtype()), name(values.dtype()));
  }
  op.set_dtype(0, values.dtype());
  op.set_shape(0, op.shape(0));
}

void infer_one_hot_encoder(Graph& graph, Node& node) {
  Inference op(graph, node);
  const bool words = op.input(0).dtype == DType::String;
  const std::string_view categories = words ? "cats_strings" : "cats_int64s";
  if (!has(node, categories)) {
    op.fail(ErrorCode::InvalidModel, "attribute \"{}\" is missing for an input of {}", categories,
            name(op.input(0).dtype));
  }
  if (!op.shape(0)) return;
  Shape y = *op.shape(0);
  y.emplace_back(
      static_cast<std::int64_t>(words ? texts(node, categories).size() : integers(node, categories).size()));
  op.set_shape(0, y);
}

void infer_svm_classifier(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_kernel(op, node);
  const auto sizes = integers(node, "vectors_per_class");
  constexpr std::int64_t kMostVectors = std::int64_t{1} << 31;
  constexpr std::size_t kMostClasses = 1 << 14;
  check_range(op, "vectors_per_class", sizes, 0, kMostVectors);
  if (sizes.size() < 2 || sizes.size() > kMostClasses) {
    op.fail(ErrorCode::InvalidModel, "got {} classes, expected 2 to {}", sizes.size(), kMostClasses);
  }
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total == 0) op.fail(ErrorCode::InvalidModel, "there are no support vectors");
  const auto vectors = static_cast<std::size_t>(total);
  const std::size_t values = numbers(node, "support_vectors").size();
  if (values % vectors != 0) {
    op.fail(ErrorCode::InvalidModel, "support_vectors has {} entries for {} vectors", values, vectors);
  }
  const std::size_t classes = sizes.size(), pairs = classes * (classes - 1) / 2;
  expect_count(op, "coefficients", numbers(node, "coefficients").size(), (classes - 1) * vectors);
  expect_count(op, "rho", numbers(node, "rho").size(), pairs);
  const bool probabilities = has(node, "prob_a") && !numbers(node, "prob_a").empty();
  if (probabilities) {
    expect_count(op, "prob_a", numbers(node, "prob_a").size(), pairs);
    expect_count(op, "prob_b", has(node, "prob_b") ? numbers(node, "prob_b").size() : 0, pairs);
  }
  expect_features(op, static_cast<std::int64_t>(values / vectors));
  const Dim count = rows(op, 0);
  op.set_shape(0, Shape{count});
  op.set_shape(1, Shape{count, static_cast<std::int64_t>(probabilities ? classes : pairs)});
}

void infer_svm_regressor(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_kernel(op, node);
  const std::int64_t count = integer(node, "n_supports");
  const std::size_t values = numbers(node, "support_vectors").size();
  if (count < 1 || values % static_cast<std::size_t>(count) != 0) {
    op.fail(ErrorCode::InvalidModel, "support_vectors has {} entries for {} vectors", values, count);
  }
  expect_count(op, "coefficients", numbers(node, "coefficients").size(), static_cast<std::size_t>(count));
  expect_count(op, "rho", numbers(node, "rho").size(), 1);
  expect_features(op, static_cast<std::int64_t>(values) / count);
  op.set_shape(0, Shape{rows(op, 0), 1});
}

void infer_tree_ensemble(Graph& graph, Node& node) {
  Inference op(graph, node);
  const auto yes = integers(node, "nodes_truenodeids"), no = integers(node, "nodes_falsenodeids"),
             modes = integers(node, "nodes_modes"), features = integers(node, "nodes_featureids"),
             leaf_starts = integers(node, "leaf_starts"), targets = integers(node, "leaf_targetids");
  const auto splits = numbers(node, "nodes_splits");
  for (const auto& [what, size] :
       {std::pair("nodes_falsenodeids", no.size()), std::pair("nodes_modes", modes.size()),
        std::pair("nodes_featureids", features.size()), std::pair("nodes_splits", splits.size()),
        std::pair("nodes_missing_value_tracks_true",
                  integers(node, "nodes_missing_value_tracks_true").size())}) {
    expect_count(op, what, size, yes.size());
  }
  const std::int64_t target_count = integer(node, "n_targets");
  constexpr std::int64_t kMostTargets = std::int64_t{1} << 24, kMostFeatures = std::int64_t{1} << 48;
  check_range(op, "n_targets", std::span(&target_count, 1), 1, kMostTargets);
  check_starts(op, "leaf_starts", leaf_starts, targets.size());
  expect_count(op, "leaf_weights", numbers(node, "leaf_weights").size(), targets.size());
  check_range(op, "leaf_targetids", targets, 0, target_count - 1);
  const auto nodes = static_cast<std::int64_t>(yes.size());
  const auto leaves = static_cast<std::int64_t>(leaf_starts.size()) - 1;
  for (const auto& [what, places] : {std::pair("nodes_truenodeids", yes), std::pair("nodes_falsenodeids", no),
                                     std::pair("tree_roots", integers(node, "tree_roots"))}) {
    check_range(op, what, places, -leaves, nodes - 1);
  }
  check_acyclic(op, yes, no);
  constexpr std::int64_t kMember = 6;
  check_range(op, "nodes_modes", modes, 0, kMember);
  check_range(op, "nodes_featureids", features, 0, kMostFeatures);
  const std::int64_t aggregate = integer(node, "aggregate_function");
  check_range(op, "aggregate_function", std::span(&aggregate, 1), 0, 3);
  std::int64_t sets = 0;
  if (has(node, "membership_starts")) {
    const auto starts = integers(node, "membership_starts");
    check_starts(op, "membership_starts", starts,
                 has(node, "membership_values") ? numbers(node, "membership_values").size() : 0);
    sets = static_cast<std::int64_t>(starts.size()) - 1;
  }
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] == kMember && !(splits[i] >= 0 && splits[i] < static_cast<double>(sets))) {
      op.fail(ErrorCode::InvalidModel, "node {} of the trees asks for the set {} of {}", i, splits[i], sets);
    }
  }
  if (has(node, "base_values")) {
    expect_count(op, "base_values", numbers(node, "base_values").size(),
                 static_cast<std::size_t>(target_count));
  }
  if (const std::optional<Shape>& x = op.shape_of_rank(0, 1, 2);
      x && x->back().is_constant() && !features.empty()) {
    check_range(op, "nodes_featureids", features, 0, x->back().constant() - 1);
  }
  op.set_shape(0, Shape{rows(op, 0), target_count});
}

void infer_map_entries(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, static_cast<DType>(integer(node, "keys")));
  const Dim count = op.fresh(0, 0);
  op.set_shape(0, Shape{count});
  op.set_shape(1, Shape{count});
}

void infer_zip_map(Graph& graph, Node& node) {
  Inference op(graph, node);
  const bool strings = has(node, "classlabels_strings"), numbered = has(node, "classlabels_int64s");
  if (strings == numbered) {
    op.fail(ErrorCode::InvalidModel, "expected one of classlabels_strings and classlabels_int64s");
  }
  expect_features(op, static_cast<std::int64_t>(strings ? texts(node, "classlabels_strings").size()
                                                        : integers(node, "classlabels_int64s").size()));
}

}  // namespace kiln::graph
