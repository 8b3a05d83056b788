// Operators of ai.onnx.ml, loaded and run by the reference kernels, against plain arithmetic.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/frontend/single_node.h"

namespace kiln::frontend {
namespace {

using testing::set;
using testing::set_integers;
using testing::set_number;
using testing::set_numbers;
using testing::set_tensor;
using testing::set_text;
using testing::set_texts;
using testing::SingleNode;

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SingleNode model(const std::string& op, std::int64_t version = 3) { return {17, op, "ai.onnx.ml", version}; }

void expect_floats(const Tensor& got, const Extents& extents, const Floats& want, float tolerance = 1e-6F) {
  EXPECT_EQ(got.dtype(), DType::F32);
  ASSERT_EQ(got.extents(), extents);
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "at " << i;
    } else {
      EXPECT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
    }
  }
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

TEST(MachineLearning, ArrayFeatureExtractorTakesColumns) {
  const Tensor columns = model("ArrayFeatureExtractor")
                             .strings({2, 3}, {"a", "b", "c", "d", "e", "f"})
                             .integers({1, 2}, {2, 0})
                             .run()[0];
  EXPECT_EQ(columns.extents(), (Extents{2, 2}));
  EXPECT_EQ(SingleNode::elements<std::string>(columns), (Strings{"c", "a", "f", "d"}));
  expect_floats(model("ArrayFeatureExtractor").floats({3}, {1, 2, 3}).integers({1}, {1}).run()[0], {1, 1},
                {2});
}

TEST(MachineLearning, BinarizerKeepsTheType) {
  auto run = model("Binarizer");
  set_number(run.node(), "threshold", 0.5F);
  expect_floats(run.floats({5}, {0.5F, 0.6F, -1, kNan, 7}).run()[0], {5}, {0, 1, 0, 0, 1});
  for (const auto& [threshold, want] :
       {std::pair(-0.5F, Integers{0, 1, 1}), std::pair(0.0F, Integers{0, 0, 1}),
        std::pair(1e30F, Integers{0, 0, 0}), std::pair(-1e30F, Integers{1, 1, 1})}) {
    auto integers = model("Binarizer");
    set_number(integers.node(), "threshold", threshold);
    EXPECT_EQ(integers.integers({3}, {-1, 0, 1}).run()[0].to_integers(), want) << threshold;
  }
}

TEST(MachineLearning, ScalerShiftsThenScalesEachFeature) {
  auto run = model("Scaler");
  set_numbers(run.node(), "offset", {1, 2});
  set_numbers(run.node(), "scale", {10, 0.5F});
  expect_floats(run.integers({2, 2}, {1, 2, 3, 5}).run()[0], {2, 2}, {0, 0, 20, 1.5F});
  auto one = model("Scaler");
  set_numbers(one.node(), "offset", {1});
  set_numbers(one.node(), "scale", {2});
  expect_floats(
      one.with(DType::F64, onnx::TensorProto::DOUBLE, {1, 2}, std::vector<double>{1.25, -1}).run()[0], {1, 2},
      {0.5F, -4});
}

TEST(MachineLearning, NormalizerLeavesRowsOfSizeZero) {
  const Floats x = {1, -2, 0.5F, 0, 0, 0, -3, -1, -2};
  const auto normalized = [&](const std::string& norm) {
    auto run = model("Normalizer");
    set_text(run.node(), "norm", norm);
    return run.floats({3, 3}, x).run()[0];
  };
  expect_floats(normalized("MAX"), {3, 3}, {1, -2, 0.5F, 0, 0, 0, 3, 1, 2});
  expect_floats(normalized("L1"), {3, 3},
                {1 / 3.5F, -2 / 3.5F, 0.5F / 3.5F, 0, 0, 0, -0.5F, -1 / 6.0F, -1 / 3.0F});
  const float first = std::sqrt(5.25F), last = std::sqrt(14.0F);
  expect_floats(normalized("L2"), {3, 3},
                {1 / first, -2 / first, 0.5F / first, 0, 0, 0, -3 / last, -1 / last, -2 / last});
}

TEST(MachineLearning, ImputerReplacesOneValue) {
  auto nan = model("Imputer");
  set_numbers(nan.node(), "imputed_value_floats", {7, 8});
  set_number(nan.node(), "replaced_value_float", kNan);
  expect_floats(nan.floats({2, 2}, {kNan, 1, 0, kNan}).run()[0], {2, 2}, {7, 1, 0, 8});
  auto integer = model("Imputer");
  set_integers(integer.node(), "imputed_value_int64s", {5});
  set(integer.node(), "replaced_value_int64", -1);
  EXPECT_EQ(integer.integers({3}, {-1, 0, 3}).run()[0].to_integers(), (Integers{5, 0, 3}));
}

TEST(MachineLearning, FeatureVectorizerCutsAndFills) {
  auto run = model("FeatureVectorizer");
  set_integers(run.node(), "inputdimensions", {3, 1});
  expect_floats(run.floats({2, 2}, {1, 2, 3, 4}).integers({2, 2}, {5, 6, 7, 8}).run()[0], {2, 4},
                {1, 2, 0, 5, 3, 4, 0, 7});
  expect_floats(model("FeatureVectorizer").floats({2}, {1, 2}).floats({1}, {3}).run()[0], {1, 3}, {1, 2, 3});
}

TEST(MachineLearning, CategoryMapperGoesBothWays) {
  const auto mapper = [] {
    auto run = model("CategoryMapper");
    set_texts(run.node(), "cats_strings", {"a", "b"});
    set_integers(run.node(), "cats_int64s", {10, 20});
    set(run.node(), "default_int64", -5);
    set_text(run.node(), "default_string", "?");
    return run;
  };
  EXPECT_EQ(mapper().strings({3}, {"b", "x", "a"}).run()[0].to_integers(), (Integers{20, -5, 10}));
  EXPECT_EQ(SingleNode::elements<std::string>(mapper().integers({3}, {20, 1, 10}).run()[0]),
            (Strings{"b", "?", "a"}));
}

TEST(MachineLearning, LabelEncoderOfEveryVersion) {
  auto first = model("LabelEncoder", 1);
  set_texts(first.node(), "classes_strings", {"x", "y"});
  EXPECT_EQ(first.strings({1, 3}, {"y", "?", "x"}).run()[0].to_integers(), (Integers{1, -1, 0}));
  auto back = model("LabelEncoder", 1);
  set_texts(back.node(), "classes_strings", {"x", "y"});
  EXPECT_EQ(SingleNode::elements<std::string>(back.integers({2}, {1, 2}).run()[0]),
            (Strings{"y", "_Unused"}));

  auto second = model("LabelEncoder", 2);
  set_numbers(second.node(), "keys_floats", {1.5F, kNan});
  set_numbers(second.node(), "values_floats", {3, 4});
  expect_floats(second.floats({3}, {kNan, 2, 1.5F}).run()[0], {3}, {4, -0.0F, 3});

  auto fourth = model("LabelEncoder", 4);
  auto& keys = set_tensor(fourth.node(), "keys_tensor", 2, onnx::TensorProto::STRING);
  keys.add_string_data("a");
  keys.add_string_data("b");
  auto& values = set_tensor(fourth.node(), "values_tensor", 2, onnx::TensorProto::INT16);
  values.add_int32_data(-3);
  values.add_int32_data(7);
  set_tensor(fourth.node(), "default_tensor", 1, onnx::TensorProto::INT16).add_int32_data(42);
  const Tensor result = fourth.strings({3}, {"b", "c", "a"}).run()[0];
  EXPECT_EQ(result.dtype(), DType::I16);
  EXPECT_EQ(result.to_integers(), (Integers{7, 42, -3}));

  auto twice = model("LabelEncoder", 2);
  set_numbers(twice.node(), "keys_floats", {1});
  set_integers(twice.node(), "keys_int64s", {1});
  set_integers(twice.node(), "values_int64s", {1});
  EXPECT_EQ(twice.integers({1}, {1}).load_error(), ErrorCode::InvalidModel);
}

// Scores (1, -2), (0, 0), (-3, 4) of two features taken as they are.
SingleNode two_scores(const std::string& transform) {
  auto run = model("LinearClassifier");
  set_numbers(run.node(), "coefficients", {1, 0, 0, 1});
  set_numbers(run.node(), "intercepts", {0, 0});
  set_texts(run.node(), "classlabels_strings", {"n", "p"});
  set_text(run.node(), "post_transform", transform);
  run.floats({3, 2}, {1, -2, 0, 0, -3, 4});
  return run;
}

TEST(MachineLearning, ClassifierTakesTheFirstBestAndTransformsScores) {
  const auto plain = two_scores("NONE").run(2);
  EXPECT_EQ(SingleNode::elements<std::string>(plain[0]), (Strings{"n", "n", "p"}));
  expect_floats(plain[1], {3, 2}, {1, -2, 0, 0, -3, 4});
  expect_floats(two_scores("LOGISTIC").run(2)[1], {3, 2},
                {sigmoid(1), sigmoid(-2), 0.5F, 0.5F, sigmoid(-3), sigmoid(4)});
  expect_floats(two_scores("SOFTMAX").run(2)[1], {3, 2},
                {sigmoid(3), sigmoid(-3), 0.5F, 0.5F, sigmoid(-7), sigmoid(7)});
  // Nothing has a part in the second row.
  expect_floats(two_scores("SOFTMAX_ZERO").run(2)[1], {3, 2},
                {sigmoid(3), sigmoid(-3), kNan, kNan, sigmoid(-7), sigmoid(7)});
  EXPECT_EQ(two_scores("SQUARE").load_error(), ErrorCode::InvalidModel);
}

TEST(MachineLearning, SoftmaxZeroLeavesZerosOut) {
  auto run = model("LinearRegressor");
  set_numbers(run.node(), "coefficients", {1, 0, 0, 0, 1, 0, 0, 0, 1});
  set(run.node(), "targets", 3);
  set_text(run.node(), "post_transform", "SOFTMAX_ZERO");
  expect_floats(run.floats({1, 3}, {2, 0, 1}).run()[0], {1, 3}, {sigmoid(1), 0, sigmoid(-1)});
}

TEST(MachineLearning, ProbitIsWinitzkisApproximation) {
  auto run = model("LinearRegressor");
  set_numbers(run.node(), "coefficients", {1});
  set_text(run.node(), "post_transform", "PROBIT");
  Floats x, want;
  for (const double p : {0.01, 0.2, 0.5, 0.8, 0.99}) {
    x.push_back(static_cast<float>(p));
    const double t = 2 * p - 1, log = std::log(1 - t * t), v = 2 / (3.14159 * 0.147) + log / 2;
    want.push_back(static_cast<float>(std::copysign(std::sqrt(2 * (std::sqrt(v * v - log / 0.147) - v)), t)));
  }
  // The true quantile of 0.8 is 0.8416.
  EXPECT_NEAR(want[3], 0.8416, 2e-3);
  expect_floats(run.floats({5, 1}, x).run()[0], {5, 1}, want, 1e-5F);
}

TEST(MachineLearning, OneScoreOfTwoClasses) {
  const auto run = [](const std::string& transform) {
    auto single = model("LinearClassifier");
    set_numbers(single.node(), "coefficients", {2});
    set_numbers(single.node(), "intercepts", {-1});
    set_integers(single.node(), "classlabels_ints", {7, 9});
    set_text(single.node(), "post_transform", transform);
    return single.floats({3, 1}, {0.5F, 1, 0}).run(2);
  };
  EXPECT_EQ(run("NONE")[0].to_integers(), (Integers{7, 9, 7}));
  expect_floats(run("NONE")[1], {3, 2}, {1, 0, 0, 1, 2, -1});
  expect_floats(run("LOGISTIC")[1], {3, 2}, {0.5F, 0.5F, sigmoid(-1), sigmoid(1), sigmoid(1), sigmoid(-1)});
}

TEST(MachineLearning, LinearModelsTakeOneSampleWithoutAnAxis) {
  auto run = model("LinearRegressor");
  set_numbers(run.node(), "coefficients", {1, 2, 3, 4});
  set_numbers(run.node(), "intercepts", {0.5F, -0.5F});
  set(run.node(), "targets", 2);
  expect_floats(run.integers({2}, {10, 100}).run()[0], {1, 2}, {210.5F, 429.5F});
}

TEST(MachineLearning, SvmRegressorOfOneClassGivesSigns) {
  auto run = model("SVMRegressor");
  set_text(run.node(), "kernel_type", "RBF");
  set_numbers(run.node(), "kernel_params", {1, 0, 0});
  set_numbers(run.node(), "coefficients", {1});
  set_numbers(run.node(), "support_vectors", {0, 0});
  set_numbers(run.node(), "rho", {-0.5F});
  set(run.node(), "n_supports", 1);
  set(run.node(), "one_class", 1);
  // exp(-|x|^2) - 0.5
  expect_floats(run.floats({3, 2}, {0, 0, 0.5F, 0.5F, 1, 1}).run()[0], {3, 1}, {1, 1, -1});
}

TEST(MachineLearning, SvmClassifierOfTwoClasses) {
  const auto run = [](const std::string& transform) {
    auto svm = model("SVMClassifier");
    set_numbers(svm.node(), "coefficients", {1, -1});
    set_numbers(svm.node(), "support_vectors", {1, -1});
    set_numbers(svm.node(), "kernel_params", {0, 0, 0});
    set_integers(svm.node(), "vectors_per_class", {1, 1});
    set_numbers(svm.node(), "rho", {0.5F});
    set_texts(svm.node(), "classlabels_strings", {"a", "b"});
    set_text(svm.node(), "post_transform", transform);
    return svm.integers({3, 1}, {2, 0, -1}).run(2);  // scores 2 x + 0.5
  };
  EXPECT_EQ(SingleNode::elements<std::string>(run("NONE")[0]), (Strings{"a", "a", "b"}));
  expect_floats(run("NONE")[1], {3, 2}, {-4.5F, 4.5F, -0.5F, 0.5F, 1.5F, -1.5F});
  expect_floats(run("SOFTMAX")[1], {3, 2}, {-3.5F, 4.5F, 0.5F, 0.5F, 2.5F, -1.5F});
  expect_floats(
      run("LOGISTIC")[1], {3, 2},
      {sigmoid(-4.5F), sigmoid(4.5F), sigmoid(-0.5F), sigmoid(0.5F), sigmoid(1.5F), sigmoid(-1.5F)});
}

// Two stumps, x0 <= 0.5 and x1 < 0, whose four leaves give `weights` to `ids`.
SingleNode stumps(const std::string& op, const std::string& kind, const Floats& weights,
                  const Integers& ids) {
  auto run = model(op);
  set_integers(run.node(), "nodes_treeids", {0, 0, 0, 1, 1, 1});
  set_integers(run.node(), "nodes_nodeids", {0, 1, 2, 0, 1, 2});
  set_integers(run.node(), "nodes_featureids", {0, 0, 0, 1, 0, 0});
  set_numbers(run.node(), "nodes_values", {0.5F, 0, 0, 0, 0, 0});
  set_texts(run.node(), "nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"});
  set_integers(run.node(), "nodes_truenodeids", {1, 0, 0, 1, 0, 0});
  set_integers(run.node(), "nodes_falsenodeids", {2, 0, 0, 2, 0, 0});
  set_integers(run.node(), "nodes_missing_value_tracks_true", {1, 0, 0, 0, 0, 0});
  set_integers(run.node(), kind + "_treeids", {0, 0, 1, 1});
  set_integers(run.node(), kind + "_nodeids", {1, 2, 1, 2});
  set_integers(run.node(), kind + "_ids", ids);
  set_numbers(run.node(), kind + "_weights", weights);
  return run;
}

// Leaves of the samples: (1, 3), (1, 4), (2, 3), and with NaN (1, 4).
const Floats kSamples = {0.5F, -1, 0, 0, 1, -0.5F, kNan, kNan};

TEST(MachineLearning, TreesOfOneTarget) {
  const auto run = [](const std::string& aggregate) {
    auto trees = stumps("TreeEnsembleRegressor", "target", {1, 2, 10, 20}, {0, 0, 0, 0});
    set_text(trees.node(), "aggregate_function", aggregate);
    set(trees.node(), "n_targets", 1);
    set_numbers(trees.node(), "base_values", {0.25F});
    return trees.floats({4, 2}, kSamples).run()[0];
  };
  expect_floats(run("SUM"), {4, 1}, {11.25F, 21.25F, 12.25F, 21.25F});
  expect_floats(run("AVERAGE"), {4, 1}, {5.75F, 10.75F, 6.25F, 10.75F});
  expect_floats(run("MIN"), {4, 1}, {1.25F, 1.25F, 2.25F, 1.25F});
  expect_floats(run("MAX"), {4, 1}, {10.25F, 20.25F, 10.25F, 20.25F});
}

TEST(MachineLearning, TreesThatKnowTheFirstOfTwoClasses) {
  const auto run = [](const Floats& weights, const std::string& transform) {
    auto trees = stumps("TreeEnsembleClassifier", "class", weights, {0, 0, 0, 0});
    set_integers(trees.node(), "classlabels_int64s", {3, 4});
    set_text(trees.node(), "post_transform", transform);
    return trees.floats({4, 2}, kSamples).run(2);
  };
  // Probabilities decide at a half, other scores at zero.
  const auto probable = run({0.25F, 0.5F, 0.125F, 0.5F}, "NONE");
  EXPECT_EQ(probable[0].to_integers(), (Integers{3, 4, 4, 4}));
  expect_floats(probable[1], {4, 2}, {0.625F, 0.375F, 0.25F, 0.75F, 0.375F, 0.625F, 0.25F, 0.75F});
  const auto scores = run({-1, 0.5F, 0.75F, 1.5F}, "NONE");
  EXPECT_EQ(scores[0].to_integers(), (Integers{3, 4, 4, 4}));
  expect_floats(scores[1], {4, 2}, {0.25F, -0.25F, -0.5F, 0.5F, -1.25F, 1.25F, -0.5F, 0.5F});
  expect_floats(run({-1, 0.5F, 0.75F, 1.5F}, "LOGISTIC")[1], {4, 2},
                {sigmoid(0.25F), sigmoid(-0.25F), sigmoid(-0.5F), sigmoid(0.5F), sigmoid(-1.25F),
                 sigmoid(1.25F), sigmoid(-0.5F), sigmoid(0.5F)});
}

TEST(MachineLearning, TreesOfSeveralClasses) {
  auto trees = stumps("TreeEnsembleClassifier", "class", {1, 2, 3, 2}, {0, 1, 2, 1});
  set_texts(trees.node(), "classlabels_strings", {"a", "b", "c"});
  set_numbers(trees.node(), "base_values", {0, 0.5F, 0});
  const auto result = trees.floats({4, 2}, kSamples).run(2);
  EXPECT_EQ(SingleNode::elements<std::string>(result[0]), (Strings{"c", "b", "c", "b"}));
  expect_floats(result[1], {4, 3}, {1, 0.5F, 3, 1, 2.5F, 0, 0, 2.5F, 3, 1, 2.5F, 0});
}

TEST(MachineLearning, TreesThatAreNoneAreRefused) {
  auto missing = model("TreeEnsembleRegressor");
  set_integers(missing.node(), "nodes_treeids", {0});
  EXPECT_EQ(missing.floats({1, 1}, {0}).load_error(), ErrorCode::InvalidModel);
  auto cycle = model("TreeEnsembleRegressor");
  set_integers(cycle.node(), "nodes_treeids", {0, 0});
  set_integers(cycle.node(), "nodes_nodeids", {0, 1});
  set_integers(cycle.node(), "nodes_featureids", {0, 0});
  set_numbers(cycle.node(), "nodes_values", {0, 0});
  set_texts(cycle.node(), "nodes_modes", {"BRANCH_LT", "BRANCH_LT"});
  set_integers(cycle.node(), "nodes_truenodeids", {1, 1});
  set_integers(cycle.node(), "nodes_falsenodeids", {1, 1});
  EXPECT_EQ(cycle.floats({1, 1}, {0}).load_error(), ErrorCode::InvalidModel);
}

// x0 in {1, 2} ? (x1 > 0 ? leaf 0 : leaf 1) : leaf 2
TEST(MachineLearning, TreeEnsembleOfVersion5) {
  const auto run = [](std::int64_t transform) {
    auto trees = model("TreeEnsemble", 5);
    set_integers(trees.node(), "tree_roots", {0});
    auto& splits = set_tensor(trees.node(), "nodes_splits", 2, onnx::TensorProto::FLOAT);
    splits.add_float_data(0);
    splits.add_float_data(0);
    auto& modes = set_tensor(trees.node(), "nodes_modes", 2, onnx::TensorProto::UINT8);
    modes.add_int32_data(6);
    modes.add_int32_data(3);
    auto& members = set_tensor(trees.node(), "membership_values", 3, onnx::TensorProto::FLOAT);
    for (const float value : {1.0F, 2.0F, kNan}) members.add_float_data(value);
    set_integers(trees.node(), "nodes_featureids", {0, 1});
    set_integers(trees.node(), "nodes_truenodeids", {1, 0});
    set_integers(trees.node(), "nodes_trueleafs", {0, 1});
    set_integers(trees.node(), "nodes_falsenodeids", {2, 1});
    set_integers(trees.node(), "nodes_falseleafs", {1, 1});
    set_integers(trees.node(), "leaf_targetids", {0, 1, 1});
    auto& weights = set_tensor(trees.node(), "leaf_weights", 3, onnx::TensorProto::FLOAT);
    for (const float value : {5.0F, 6.0F, 7.0F}) weights.add_float_data(value);
    set(trees.node(), "n_targets", 2);
    set(trees.node(), "post_transform", transform);
    return trees.floats({4, 2}, {1, 1, 2, 0, 3, 1, kNan, 1}).run()[0];
  };
  expect_floats(run(0), {4, 2}, {5, 0, 0, 6, 0, 7, 0, 7});
  expect_floats(
      run(1), {4, 2},
      {sigmoid(5), sigmoid(-5), sigmoid(-6), sigmoid(6), sigmoid(-7), sigmoid(7), sigmoid(-7), sigmoid(7)});
  expect_floats(run(2), {4, 2}, {sigmoid(5), 0.5F, 0.5F, sigmoid(6), 0.5F, sigmoid(7), 0.5F, sigmoid(7)});
}

}  // namespace
}  // namespace kiln::frontend
