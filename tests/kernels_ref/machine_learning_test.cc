#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Strings = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

Tensor strings(Extents extents, const Strings& values) {
  return exact<std::string>(std::move(extents), values);
}

Tensor encoded(const Tensor& x, const Tensor& keys, const Tensor& results, const Tensor& fallback) {
  return run(OpKind::LabelEncoder, {x}, {{"keys", keys}, {"values", results}, {"fallback", fallback}});
}

TEST(LabelEncoder, MapsEveryTypeToEveryOther) {
  const Tensor result = encoded(strings({2, 2}, {"b", "?", "a", ""}), strings({2}, {"a", "b"}),
                                exact<std::int16_t>({2}, {-7, 9}), exact<std::int16_t>({1}, {3}));
  EXPECT_EQ(result.extents(), (Extents{2, 2}));
  EXPECT_EQ(values(result), (Numbers{9, 3, -7, 3}));
  const Tensor named = encoded(exact<std::int32_t>({3}, {4, 5, 4}), exact<std::int32_t>({2}, {4, 6}),
                               strings({2}, {"four", "six"}), strings({}, {"none"}));
  EXPECT_EQ(Strings(named.as<std::string>().begin(), named.as<std::string>().end()),
            (Strings{"four", "none", "four"}));
}

TEST(LabelEncoder, FindsNaNAndTheFirstOfEqualKeys) {
  const Tensor x = tensor<double>({5}, {kNan, 1, 0.0, -0.0, kInf});
  expect_values(encoded(x, tensor<double>({5}, {kNan, 1, 1, 0.0, kInf}), tensor({5}, {1, 2, 3, 4, 5}),
                        tensor({1}, {9})),
                {5}, {1, 2, 4, 9, 5});
}

TEST(LabelEncoder, RefusesKeysOfAnotherType) {
  EXPECT_EQ(error_of(OpKind::LabelEncoder, {tensor({1}, {1})},
                     {{"keys", integers({1})}, {"values", integers({1})}, {"fallback", integers({1})}}),
            ErrorCode::TypeMismatch);
  EXPECT_EQ(error_of(OpKind::LabelEncoder, {integers({1})},
                     {{"keys", integers({1, 2})}, {"values", integers({1})}, {"fallback", integers({1})}}),
            ErrorCode::InvalidModel);
}

TEST(OneHotEncoder, TakesTheLastOfEqualCategories) {
  const graph::Attributes numbers = {{"cats_int64s", Integers{1, 2, -3, 2}}};
  expect_values(run(OpKind::OneHotEncoder, {tensor<double>({3}, {2.9, -3, 7})}, numbers), {3, 4},
                {0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0});
  expect_values(
      run(OpKind::OneHotEncoder, {strings({1, 2}, {"b", "x"})}, {{"cats_strings", Strings{"a", "b"}}}),
      {1, 2, 2}, {0, 1, 0, 0});
}

TEST(OneHotEncoder, RefusesUnknownCategoriesWithoutZeros) {
  EXPECT_EQ(error_of(OpKind::OneHotEncoder, {integers({5})},
                     {{"cats_int64s", Integers{1}}, {"zeros", std::int64_t{0}}}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::OneHotEncoder, {strings({1}, {"a"})}, {{"cats_int64s", Integers{1}}}),
            ErrorCode::InvalidModel);
}

// A model of scikit-learn's SVC (RBF, gamma 0.5, three classes) and what it predicts.
const Numbers kSamples = {0.62, 3.16, -1.97, -0.21, 0.47, 0.97, 1.83, 1.74};
graph::Attributes classifier() {
  return {{"kernel_type", std::string("RBF")},
          {"kernel_params", Numbers{0.5, 0, 0}},
          {"vectors_per_class", Integers{3, 5, 4}},
          {"support_vectors",
           Numbers{0.0,  -0.29, -1.12, -0.01, -1.52, -0.49, 3.14, 1.74, 2.8,  0.71, 4.32, 0.43,
                   4.04, -0.9,  2.36,  1.3,   0.92,  2.88,  0.52, 2.14, 0.21, 2.83, -0.5, 0.41}},
          {"coefficients", Numbers{0.9419607,  0.0,        0.9278475,  -0.3318098, -0.0215542, -0.4182124,
                                   -0.5942265, -0.5040053, -0.7341055, -0.0,       -0.3114888, -5.0,
                                   2.6919103,  3.353684,   0.0,        0.3298433,  0.0,        0.4999958,
                                   0.7062394,  0.7831945,  -0.7100431, -0.3902556, -0.2119381, -1.0070363}},
          {"rho", Numbers{-0.2189867, 0.0446417, 0.0712182}}};
}

TEST(SvmClassifier, AgreesWithLibsvm) {
  for (const auto& [x, tolerance] :
       {std::pair(tensor<double>({4, 2}, kSamples), 2e-6), std::pair(tensor({4, 2}, kSamples), 4e-6)}) {
    const auto result = run_all(OpKind::SVMClassifier, {x}, classifier(), 2);
    EXPECT_EQ(result[0].to_integers(), (Integers{2, 0, 2, 1}));
    expect_values(result[1], {4, 3},
                  {-0.2416812, -0.9516212, -0.97348, 0.7221386, 1.3198384, -0.2122168, 0.1177218, -1.110153,
                   -0.6713264, -0.7519489, -0.3181635, 0.3834365},
                  tolerance, tolerance);
  }
}

TEST(SvmClassifier, GivesLibsvmsProbabilities) {
  graph::Attributes attributes = classifier();
  attributes["prob_a"] = Numbers{-2.5228098, -0.9985937, -2.1717653};
  attributes["prob_b"] = Numbers{-0.0629659, -0.160885, 0.0072708};
  const auto result = run_all(OpKind::SVMClassifier, {tensor<double>({4, 2}, kSamples)}, attributes, 2);
  expect_values(result[1], {4, 3},
                {0.2102926, 0.1350229, 0.6546845, 0.7252958, 0.1080669, 0.1666373, 0.2335824, 0.1492828,
                 0.6171349, 0.1326047, 0.625522, 0.2418734},
                0, 2e-6);
}

TEST(SvmClassifier, RefusesListsThatDoNotFit) {
  const Tensor x = tensor<double>({4, 2}, kSamples);
  for (const std::string name : {"coefficients", "rho", "support_vectors"}) {
    graph::Attributes attributes = classifier();
    std::get<Numbers>(attributes[name]).pop_back();
    EXPECT_EQ(error_of(OpKind::SVMClassifier, {x}, attributes, 2), ErrorCode::InvalidModel) << name;
  }
  graph::Attributes attributes = classifier();
  attributes["vectors_per_class"] = Integers{-1, 7, 6};
  EXPECT_EQ(error_of(OpKind::SVMClassifier, {x}, attributes, 2), ErrorCode::InvalidModel);
  EXPECT_EQ(error_of(OpKind::SVMClassifier, {tensor<double>({2, 4}, kSamples)}, classifier(), 2),
            ErrorCode::ShapeMismatch);
}

// Of scikit-learn's SVR (polynomial of degree 3, gamma 0.4, coef0 1).
TEST(SvmRegressor, AgreesWithLibsvm) {
  const graph::Attributes attributes = {
      {"kernel_type", std::string("POLY")},
      {"kernel_params", Numbers{0.4, 1, 3}},
      {"n_supports", std::int64_t{6}},
      {"support_vectors",
       Numbers{0.0, -0.29, -1.12, -0.01, -0.38, -0.48, -1.52, -0.49, -0.24, -0.65, 3.14, 1.74}},
      {"coefficients", Numbers{0.5, -0.5, -0.4198993, -0.0965734, 0.5, 0.0164727}},
      {"rho", Numbers{0.1164884}}};
  expect_values(run(OpKind::SVMRegressor, {tensor<double>({4, 2}, kSamples)}, attributes), {4, 1},
                {1.0915461, -3.8882859, 0.4029392, 1.8890113}, 1e-5, 1e-5);
  expect_values(run(OpKind::SVMRegressor, {tensor<double>({2}, {0.62, 3.16})}, attributes), {1, 1},
                {1.0915461}, 1e-5);
}

// Trees of random shape in the flat form, walked here by recursion.
struct Forest {
  Integers features, modes, yes, no, missing, roots, starts = {0}, targets;
  Numbers splits, weights;

  std::int64_t grow(std::mt19937& generator, int depth, std::int64_t feature_count,
                    std::int64_t target_count) {
    const auto draw = [&](std::int64_t below) {
      return static_cast<std::int64_t>(generator() % static_cast<unsigned>(below));
    };
    if (depth == 0 || draw(5) == 0) {
      for (std::int64_t i = draw(3); i-- > 0;) {
        targets.push_back(draw(target_count));
        weights.push_back(static_cast<double>(draw(64)) / 8 - 4);
      }
      starts.push_back(static_cast<std::int64_t>(targets.size()));
      return ~(static_cast<std::int64_t>(starts.size()) - 2);
    }
    const auto node = features.size();
    features.push_back(draw(feature_count));
    modes.push_back(draw(6));
    missing.push_back(draw(2));
    splits.push_back(static_cast<double>(draw(9)) / 2 - 2);
    yes.push_back(0);
    no.push_back(0);
    yes[node] = grow(generator, depth - 1, feature_count, target_count);
    no[node] = grow(generator, depth - 1, feature_count, target_count);
    return static_cast<std::int64_t>(node);
  }

  std::size_t leaf(std::int64_t place, const double* x) const {
    if (place < 0) return static_cast<std::size_t>(~place);
    const auto i = static_cast<std::size_t>(place);
    const double value = x[features[i]], split = splits[i];
    const bool results[] = {value <= split, value<split, value >= split, value> split, value == split,
                            value != split};
    const bool taken = results[modes[i]] || (std::isnan(value) && missing[i] == 1);
    return leaf(taken ? yes[i] : no[i], x);
  }

  graph::Attributes attributes(std::int64_t target_count, std::int64_t aggregate) const {
    return {{"aggregate_function", aggregate},
            {"leaf_starts", starts},
            {"leaf_targetids", targets},
            {"leaf_weights", weights},
            {"n_targets", target_count},
            {"nodes_falsenodeids", no},
            {"nodes_featureids", features},
            {"nodes_missing_value_tracks_true", missing},
            {"nodes_modes", modes},
            {"nodes_splits", splits},
            {"nodes_truenodeids", yes},
            {"tree_roots", roots}};
  }
};

template <typename T>
void check_forest(double tolerance) {
  constexpr std::int64_t kRows = 37, kFeatures = 4, kTargets = 3;
  std::mt19937 generator(11);
  for (const std::int64_t aggregate : {0, 1, 2, 3}) {
    Forest forest;
    for (int tree = 0; tree < 9; ++tree)
      forest.roots.push_back(forest.grow(generator, tree, kFeatures, kTargets));
    Numbers x;
    for (std::int64_t i = 0; i < kRows * kFeatures; ++i) {
      x.push_back(generator() % 8 == 0 ? kNan : static_cast<double>(generator() % 9) / 2 - 2);
    }
    const Numbers base = {0.5, -1, 2};
    Numbers want;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t target = 0; target < kTargets; ++target) {
        Numbers found;
        for (const std::int64_t root : forest.roots) {
          const std::size_t leaf = forest.leaf(root, x.data() + row * kFeatures);
          for (std::int64_t i = forest.starts[leaf]; i < forest.starts[leaf + 1]; ++i) {
            if (forest.targets[static_cast<std::size_t>(i)] == target)
              found.push_back(forest.weights[static_cast<std::size_t>(i)]);
          }
        }
        double value = 0;
        if (aggregate < 2) {
          for (const double weight : found) value += weight;
          if (aggregate == 0) value /= static_cast<double>(forest.roots.size());
        } else if (!found.empty()) {
          value = aggregate == 2 ? *std::min_element(found.begin(), found.end())
                                 : *std::max_element(found.begin(), found.end());
        }
        want.push_back(value + base[static_cast<std::size_t>(target)]);
      }
    }
    graph::Attributes attributes = forest.attributes(kTargets, aggregate);
    attributes["base_values"] = base;
    expect_values(run(OpKind::TreeEnsemble, {tensor<T>({kRows, kFeatures}, x)}, attributes),
                  {kRows, kTargets}, want, tolerance, tolerance);
  }
}

TEST(TreeEnsemble, WalksAsRecursionDoes) {
  check_forest<double>(1e-15);
  check_forest<float>(1e-7);
  check_forest<Float16>(1e-3);
}

// One node that asks whether feature 0 is in a set.
graph::Attributes membership() {
  return {{"leaf_starts", Integers{0, 1, 2}},
          {"leaf_targetids", Integers{0, 0}},
          {"leaf_weights", Numbers{1, -1}},
          {"membership_starts", Integers{0, 2, 3}},
          {"membership_values", Numbers{1, 4, 7}},
          {"n_targets", std::int64_t{1}},
          {"nodes_falsenodeids", Integers{-2}},
          {"nodes_featureids", Integers{0}},
          {"nodes_missing_value_tracks_true", Integers{0}},
          {"nodes_modes", Integers{6}},
          {"nodes_splits", Numbers{0}},
          {"nodes_truenodeids", Integers{-1}},
          {"tree_roots", Integers{0}}};
}

TEST(TreeEnsemble, LooksIntoSets) {
  expect_values(run(OpKind::TreeEnsemble, {tensor({5, 1}, {1, 4, 7, 0, kNan})}, membership()), {5, 1},
                {1, 1, -1, -1, -1});
  expect_values(run(OpKind::TreeEnsemble, {tensor({1}, {4})}, membership()), {1, 1}, {1});
  EXPECT_EQ(run(OpKind::TreeEnsemble, {tensor({0, 1}, {})}, membership()).extents(), (Extents{0, 1}));
}

TEST(TreeEnsemble, RefusesWhatIsNoTree) {
  const auto error_with = [](const std::string& name, graph::Attribute value) {
    graph::Attributes attributes = membership();
    attributes[name] = std::move(value);
    return error_of(OpKind::TreeEnsemble, {tensor({1, 1}, {1})}, attributes);
  };
  EXPECT_EQ(error_with("nodes_truenodeids", Integers{0}), ErrorCode::InvalidModel);  // a cycle
  EXPECT_EQ(error_with("nodes_truenodeids", Integers{1}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("nodes_falsenodeids", Integers{-3}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("nodes_featureids", Integers{1}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("nodes_modes", Integers{7}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("nodes_splits", Numbers{2}), ErrorCode::InvalidModel);  // no such set
  EXPECT_EQ(error_with("nodes_splits", Numbers{kNan}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("leaf_targetids", Integers{0, 1}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("leaf_starts", Integers{0, 2, 1}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("tree_roots", Integers{5}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("n_targets", std::int64_t{0}), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with("aggregate_function", std::int64_t{4}), ErrorCode::InvalidModel);
}

}  // namespace
}  // namespace kiln::reference
