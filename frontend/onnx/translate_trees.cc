// Translators: tree ensembles of ai.onnx.ml, old and new form, into the flat form of ir/graph/ops.def.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "frontend/onnx/classifier.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"
#include "ir/base/float_types.h"

namespace kiln::frontend::translate {
namespace {

constexpr std::int64_t kMember = 6;
constexpr std::array<std::string_view, 7> kModes = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                                    "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};
constexpr std::array<std::string_view, 4> kAggregates = {"AVERAGE", "SUM", "MIN", "MAX"};

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

struct Trees {
  Integers features, modes, yes, no, missing;
  Numbers splits;
  Integers roots, leaf_starts = {0}, targets;
  Numbers weights;
  Integers set_starts = {0};
  Numbers members;
  std::optional<Numbers> base_values;
  std::int64_t target_count = 1, aggregate = 1;

  Attributes attributes() && {
    Attributes result = {{"aggregate_function", aggregate},
                         {"leaf_starts", std::move(leaf_starts)},
                         {"leaf_targetids", std::move(targets)},
                         {"leaf_weights", std::move(weights)},
                         {"n_targets", target_count},
                         {"nodes_falsenodeids", std::move(no)},
                         {"nodes_featureids", std::move(features)},
                         {"nodes_missing_value_tracks_true", std::move(missing)},
                         {"nodes_modes", std::move(modes)},
                         {"nodes_splits", std::move(splits)},
                         {"nodes_truenodeids", std::move(yes)},
                         {"tree_roots", std::move(roots)}};
    if (set_starts.size() > 1) {
      result["membership_starts"] = std::move(set_starts);
      result["membership_values"] = std::move(members);
    }
    if (base_values) result["base_values"] = std::move(*base_values);
    return result;
  }
};

Numbers numbers_of(Translation& node, std::string_view name, const Tensor& tensor) {
  const auto copy = [&]<typename T>(T) {
    Numbers result;
    for (const T value : tensor.as<T>()) result.push_back(static_cast<double>(static_cast<float>(value)));
    return result;
  };
  if (tensor.dtype() == DType::F64) {
    const auto values = tensor.as<double>();
    return {values.begin(), values.end()};
  }
  if (tensor.dtype() == DType::F32) return copy(float());
  if (tensor.dtype() == DType::F16) return copy(Float16());
  node.invalid(fmt::format("attribute '{}' is a tensor of {}, expected f16, f32 or f64", name,
                           kiln::name(tensor.dtype())));
}

// Floats that may also be given as a tensor, under a name of its own.
std::optional<Numbers> take_floats(Translation& node, const std::string& name) {
  std::optional<Numbers> list = node.take_numbers(name);
  const std::optional<Tensor> tensor = node.take_tensor(name + "_as_tensor");
  if (list && list->empty()) list.reset();
  if (!tensor || tensor->elements() == 0) return list;
  if (list) node.invalid(fmt::format("attribute '{}' is given as a list and as a tensor", name));
  return numbers_of(node, name, *tensor);
}

void expect_count(Translation& node, std::string_view name, std::size_t got, std::size_t expected) {
  if (got != expected)
    node.invalid(fmt::format("attribute '{}' has {} entries, expected {}", name, got, expected));
}

Integers take_integers(Translation& node, std::string_view name, std::optional<std::size_t> count = {}) {
  Integers values = node.take_integers(name).value_or(Integers());
  if (count) expect_count(node, name, values.size(), *count);
  return values;
}

// The form until version 5: nodes and leaves are named by (tree, node), weights belong to leaves by name.
// `kind` is "class" or "target".
Trees take_named_trees(Translation& node, const std::string& kind) {
  Trees trees;
  const Integers tree_ids = take_integers(node, "nodes_treeids");
  const std::size_t count = tree_ids.size();
  const Integers node_ids = take_integers(node, "nodes_nodeids", count);
  const Integers features = take_integers(node, "nodes_featureids", count);
  const Integers yes = take_integers(node, "nodes_truenodeids", count);
  const Integers no = take_integers(node, "nodes_falsenodeids", count);
  const Numbers splits = take_floats(node, "nodes_values").value_or(Numbers());
  expect_count(node, "nodes_values", splits.size(), count);
  const auto modes = node.take_texts("nodes_modes").value_or(std::vector<std::string>());
  expect_count(node, "nodes_modes", modes.size(), count);
  Integers missing = take_integers(node, "nodes_missing_value_tracks_true");
  if (missing.empty()) missing.assign(count, 0);
  expect_count(node, "nodes_missing_value_tracks_true", missing.size(), count);
  node.drop({"nodes_hitrates", "nodes_hitrates_as_tensor"});

  // Where each node goes: its number, or ~number of a leaf.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> places;
  std::int64_t branches = 0, leaves = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t place = modes[i] == "LEAF" ? ~leaves++ : branches++;
    if (!places.emplace(std::pair(tree_ids[i], node_ids[i]), place).second) {
      node.invalid(fmt::format("tree {} has the node {} twice", tree_ids[i], node_ids[i]));
    }
  }
  const auto place_of = [&](std::int64_t tree, std::int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end()) node.invalid(fmt::format("tree {} has no node {}", tree, id));
    return found->second;
  };
  std::set<std::int64_t> inner;  // places that a node leads to
  for (std::size_t i = 0; i < count; ++i) {
    if (modes[i] == "LEAF") continue;
    const auto mode = std::find(kModes.begin(), kModes.end(), modes[i]) - kModes.begin();
    if (mode >= kMember) node.invalid(fmt::format("the node mode '{}' is unknown", modes[i]));
    trees.modes.push_back(mode);
    trees.features.push_back(features[i]);
    trees.splits.push_back(splits[i]);
    trees.missing.push_back(missing[i]);
    trees.yes.push_back(place_of(tree_ids[i], yes[i]));
    trees.no.push_back(place_of(tree_ids[i], no[i]));
    inner.insert({trees.yes.back(), trees.no.back()});
  }
  // A tree's root is its first node that no other leads to.
  std::set<std::int64_t> rooted;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t place = place_of(tree_ids[i], node_ids[i]);
    if (!inner.contains(place) && rooted.insert(tree_ids[i]).second) trees.roots.push_back(place);
  }
  if (rooted != std::set<std::int64_t>(tree_ids.begin(), tree_ids.end())) node.invalid("a tree has no root");

  const Numbers weights = take_floats(node, kind + "_weights").value_or(Numbers());
  const Integers weight_trees = take_integers(node, kind + "_treeids", weights.size());
  const Integers weight_nodes = take_integers(node, kind + "_nodeids", weights.size());
  const Integers targets = take_integers(node, kind + "_ids", weights.size());
  std::vector<std::vector<std::size_t>> entries(static_cast<std::size_t>(leaves));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t place = place_of(weight_trees[i], weight_nodes[i]);
    if (place >= 0) continue;  // a weight of a node that is no leaf is never reached
    entries[static_cast<std::size_t>(~place)].push_back(i);
  }
  for (const auto& list : entries) {
    for (const std::size_t i : list) {
      trees.targets.push_back(targets[i]);
      trees.weights.push_back(weights[i]);
    }
    trees.leaf_starts.push_back(static_cast<std::int64_t>(trees.targets.size()));
  }
  trees.base_values = take_floats(node, "base_values");
  return trees;
}

// One score for each target or class. Integers are compared as f64.
ValueId add_trees(Translation& node, Trees trees) {
  ValueId x = node.input(0);
  if (is_integer(node.dtype(x))) {
    x = node.add(OpKind::Cast, {x}, to(DType::F64));
  }
  return node.add(OpKind::TreeEnsemble, {x}, std::move(trees).attributes());
}

// Base values are one for each target, or one for the first.
void spread_base_values(Translation& node, Trees& trees) {
  if (!trees.base_values) return;
  const auto count = static_cast<std::size_t>(trees.target_count);
  if (trees.base_values->size() == 1) trees.base_values->resize(count);
  expect_count(node, "base_values", trees.base_values->size(), count);
}

}  // namespace

void tree_ensemble_regressor(Translation& node) {
  Trees trees = take_named_trees(node, "target");
  trees.target_count = node.take_integer("n_targets", 1);
  const std::string aggregate = node.take_text("aggregate_function", "SUM");
  trees.aggregate = std::find(kAggregates.begin(), kAggregates.end(), aggregate) - kAggregates.begin();
  if (trees.aggregate == std::ssize(kAggregates))
    node.invalid(
        fmt::format("aggregate_function is '{}', expected {}", aggregate, fmt::join(kAggregates, ", ")));
  const std::string transform = take_post_transform(node);
  spread_base_values(node, trees);
  finish_as_float(node, 0, post_transformed(node, add_trees(node, std::move(trees)), transform));
}

// Two classes of which the weights only know one: that score alone decides, and gives both columns if it is
// the first class's.
void tree_ensemble_classifier(Translation& node) {
  Trees trees = take_named_trees(node, "class");
  const std::string transform = take_post_transform(node);
  const ClassLabels labels(node, "classlabels_int64s");
  trees.target_count = labels.count();
  const std::set<std::int64_t> classes(trees.targets.begin(), trees.targets.end());
  const bool one_score = labels.count() == 2 && classes.size() == 1;
  const bool positive =
      std::all_of(trees.weights.begin(), trees.weights.end(), [](double w) { return w >= 0; });
  const std::size_t base_count = trees.base_values ? trees.base_values->size() : 0;
  if (base_count == 1 && one_score && *classes.begin() == 1)
    trees.base_values = Numbers{0, (*trees.base_values)[0]};
  spread_base_values(node, trees);
  const ValueId scores = add_trees(node, std::move(trees));
  if (one_score) {
    const ValueId score =
        node.add(OpKind::Gather, {scores, node.integers({*classes.begin()})}, {{"axis", std::int64_t{1}}});
    labels.finish_binary(node, score, positive ? 0.5 : 0);
    const bool both = *classes.begin() == 0 && base_count < 2;
    return finish_as_float(
        node, 1,
        both ? two_columns(node, score, transform, positive) : post_transformed(node, scores, transform));
  }
  if (labels.count() == 1) {
    labels.finish_binary(node, scores, 0);
  } else {
    labels.finish(
        node, node.add(OpKind::ArgMax, {scores}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}));
  }
  finish_as_float(node, 1, post_transformed(node, scores, transform));
}

// Version 5: nodes and leaves are numbered, and a leaf has one target.
void tree_ensemble(Translation& node) {
  const auto take_tensor = [&](std::string_view name) {
    const std::optional<Tensor> tensor = node.take_tensor(name);
    if (!tensor) node.invalid(fmt::format("attribute '{}' is missing", name));
    return *tensor;
  };
  Trees trees;
  trees.splits = numbers_of(node, "nodes_splits", take_tensor("nodes_splits"));
  const std::size_t count = trees.splits.size();
  trees.features = take_integers(node, "nodes_featureids", count);
  trees.modes = take_tensor("nodes_modes").to_integers();
  expect_count(node, "nodes_modes", trees.modes.size(), count);
  trees.missing = take_integers(node, "nodes_missing_value_tracks_true");
  if (trees.missing.empty()) trees.missing.assign(count, 0);
  const auto children = [&](std::string_view ids, std::string_view are_leaves) {
    Integers places = take_integers(node, ids, count);
    const Integers leaf = take_integers(node, are_leaves, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (places[i] < 0) node.invalid(fmt::format("attribute '{}' has the entry {}", ids, places[i]));
      if (leaf[i] != 0) places[i] = ~places[i];
    }
    return places;
  };
  trees.yes = children("nodes_truenodeids", "nodes_trueleafs");
  trees.no = children("nodes_falsenodeids", "nodes_falseleafs");
  trees.weights = numbers_of(node, "leaf_weights", take_tensor("leaf_weights"));
  trees.targets = take_integers(node, "leaf_targetids", trees.weights.size());
  for (std::size_t i = 1; i <= trees.targets.size(); ++i)
    trees.leaf_starts.push_back(static_cast<std::int64_t>(i));
  trees.roots = take_integers(node, "tree_roots");
  for (const std::int64_t root : trees.roots) {
    if (root < 0) node.invalid(fmt::format("attribute 'tree_roots' has the entry {}", root));
  }
  // Sets follow each other in the order of the nodes that ask for them, each ended by NaN.
  if (const std::optional<Tensor> members = node.take_tensor("membership_values")) {
    for (const double value : numbers_of(node, "membership_values", *members)) {
      if (std::isnan(value)) {
        trees.set_starts.push_back(static_cast<std::int64_t>(trees.members.size()));
      } else {
        trees.members.push_back(value);
      }
    }
    if (static_cast<std::size_t>(trees.set_starts.back()) != trees.members.size())
      trees.set_starts.push_back(static_cast<std::int64_t>(trees.members.size()));
  }
  std::int64_t sets = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (trees.modes[i] == kMember) trees.splits[i] = static_cast<double>(sets++);
  }
  node.drop({"nodes_hitrates"});
  trees.target_count = node.take_integer("n_targets", 1);
  trees.aggregate = node.take_integer("aggregate_function", 1);
  constexpr std::array<std::string_view, 5> kTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                           "PROBIT"};
  const std::int64_t transform = node.take_integer("post_transform", 0);
  if (transform < 0 || transform >= std::ssize(kTransforms))
    node.invalid(
        fmt::format("post_transform is {}, expected 0 to {}", transform, std::ssize(kTransforms) - 1));
  const std::string name(kTransforms[static_cast<std::size_t>(transform)]);
  if (name == "NONE")
    return node.finish(OpKind::TreeEnsemble, {node.input(0)}, std::move(trees).attributes());
  node.finish_with({post_transformed(node, add_trees(node, std::move(trees)), name)});
}

}  // namespace kiln::frontend::translate
