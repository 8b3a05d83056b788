// GreedySearch through a Session, against plain loops over the same small decoder.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using frontend::testing::DimSpec;
using frontend::testing::graph_attribute;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt32 = onnx::TensorProto::INT32, kVocabulary = 7;
using Tokens = std::vector<std::int32_t>;

// The score of `next` after a token at a position, when all that attention sees adds up to `sum`.
float affinity(std::int32_t token, std::int32_t next) {
  return std::sin(static_cast<float>(token * 7 + next * 3));
}
float weight(std::int32_t next) { return std::cos(static_cast<float>(next * 5)); }

// logits = table[input_ids] + position_ids * weights + sum(presents) / 8 * weights; a present is the past and
// behind it the tokens that the mask shows, twice.
void fill_decoder(onnx::GraphProto& graph) {
  const auto input = [&](const std::string& name, int type, const std::vector<DimSpec>& dims) {
    ModelBuilder::set_type(*graph.add_input(), name, dims, type);
  };
  const auto node = [&](const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) -> onnx::NodeProto& {
    return ModelBuilder::add_node(*graph.mutable_node(), op, inputs, {output});
  };
  input("input_ids", kInt32, {"batch", "tokens"});
  input("position_ids", kInt32, {"batch", "tokens"});
  input("attention_mask", kInt32, {"batch", "total"});
  input("past_0", kFloat, {2, "batch", 1, "past", 1});
  set(node("Cast", {"input_ids"}, "ids"), "to", std::int64_t{kFloat});
  node("Unsqueeze", {"ids", "heads_and_size"}, "column");  // batch x 1 x tokens x 1
  node("Unsqueeze", {"column", "zero"}, "one_half");
  set(node("Concat", {"one_half", "one_half"}, "both"), "axis", std::int64_t{0});
  set(node("Concat", {"past_0", "both"}, "present_0"), "axis", std::int64_t{3});
  // batch x 1 x total x 1, times what the mask shows
  set(node("Cast", {"attention_mask"}, "mask"), "to", std::int64_t{kFloat});
  node("Unsqueeze", {"mask", "heads_and_size"}, "mask_column");
  node("Mul", {"present_0", "mask_column"}, "visible");
  node("ReduceSum", {"visible", "all_but_batch"}, "sum");  // 1 x batch x 1 x 1 x 1
  node("Reshape", {"sum", "per_batch"}, "sums");
  node("Mul", {"sums", "eighth"}, "pull");
  set(node("Cast", {"position_ids"}, "positions"), "to", std::int64_t{kFloat});
  node("Unsqueeze", {"positions", "last"}, "position_column");
  node("Add", {"position_column", "pull"}, "factor");
  node("Mul", {"factor", "weights"}, "bent");
  node("Gather", {"table", "input_ids"}, "affinities");
  node("Add", {"affinities", "bent"}, "logits");
  graph.add_output()->set_name("logits");
  graph.add_output()->set_name("present_0");
}

struct Search {
  std::int32_t end = 3, pad = 6, least = 0, n_gram = 0;
  float penalty = 1;
};

ModelBuilder model_of(const Search& search, bool own_first) {
  ModelBuilder model(18, "com.microsoft", 1);
  model.input("prompt", {"batch", "tokens"}, kInt32).input("length", {1}, kInt32);
  model.input("least", {1}, kInt32).input("penalty", {1});
  std::vector<float> table, weights;
  for (int token = 0; token < kVocabulary; ++token) {
    for (int next = 0; next < kVocabulary; ++next) table.push_back(affinity(token, next));
    weights.push_back(weight(token));
  }
  model.floats("table", {kVocabulary, kVocabulary}, table).floats("weights", {kVocabulary}, weights);
  model.floats("eighth", {}, {0.125F}).integers("zero", {1}, {0}).integers("last", {1}, {2});
  model.integers("heads_and_size", {2}, {1, 3}).integers("all_but_batch", {4}, {0, 2, 3, 4});
  model.integers("per_batch", {3}, {-1, 1, 1});
  auto& node =
      model.node("GreedySearch", {"prompt", "length", "least", "penalty"}, {"sequences"}, "com.microsoft");
  set(node, "eos_token_id", std::int64_t{search.end});
  set(node, "pad_token_id", std::int64_t{search.pad});
  set(node, "no_repeat_ngram_size", std::int64_t{search.n_gram});
  set(node, "model_type", std::int64_t{0});
  fill_decoder(graph_attribute(node, "decoder"));
  if (own_first) fill_decoder(graph_attribute(node, "init_decoder"));
  return model.output("sequences");
}

Tokens expected(const Search& search, Tokens tokens, std::size_t length) {
  bool ended = false;
  while (tokens.size() < length) {
    double sum = 0, position = -1;
    for (const std::int32_t token : tokens) {
      if (token == search.pad && position < 0) {
        continue;
      }
      sum += 2.0 * token;
      position += 1;
    }
    std::vector<double> scores;
    for (std::int32_t next = 0; next < kVocabulary; ++next) {
      double score = affinity(tokens.back(), next) + (position + sum / 8) * weight(next);
      if (std::count(tokens.begin(), tokens.end(), next) > 0) {
        score = score < 0 ? score * search.penalty : score / search.penalty;
      }
      for (std::size_t i = 0; search.n_gram == 2 && i + 1 < tokens.size(); ++i) {
        if (tokens[i] == tokens.back() && tokens[i + 1] == next) score = -1e30;
      }
      if (next == search.end && static_cast<std::int32_t>(tokens.size()) < search.least) score = -1e30;
      scores.push_back(score);
    }
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (best == search.end) ended = true;
    tokens.push_back(ended ? search.pad : static_cast<std::int32_t>(best));
  }
  return tokens;
}

Tensor integers(const Extents& extents, const Tokens& values) {
  return Tensor::from(DType::I32, extents, std::span<const std::int32_t>(values));
}

// The sequences of prompts that are one behind the other in `prompt`.
Tensor run(const Session& session, const Search& search, const Extents& extents, const Tokens& prompt,
           std::int32_t length) {
  const float penalty[] = {search.penalty};
  return session.run({{"prompt", integers(extents, prompt)},
                      {"length", integers({1}, {length})},
                      {"least", integers({1}, {search.least})},
                      {"penalty", Tensor::from(DType::F32, {1}, std::span<const float>(penalty))}})[0];
}

Tokens tokens_of(const Tensor& tensor) {
  const auto tokens = tensor.as<std::int32_t>();
  return {tokens.begin(), tokens.end()};
}

void check(const Search& search) {
  const std::vector<Tokens> prompts = {{1, 2, 5}, {6, 4, 0}, {2, 2, 2}};
  for (const bool own_first : {false, true}) {
    for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
      SCOPED_TRACE(fmt::format("kernels {}, init_decoder {}", static_cast<int>(kernels), own_first));
      const Session session = e2e::load(model_of(search, own_first), {.kernels = kernels});
      for (const std::int32_t length : {3, 4, 12}) {
        Tokens given, wanted;
        for (const Tokens& prompt : prompts) {
          given.insert(given.end(), prompt.begin(), prompt.end());
          const Tokens row = expected(search, prompt, static_cast<std::size_t>(length));
          wanted.insert(wanted.end(), row.begin(), row.end());
        }
        const Tensor got = run(session, search, {3, 3}, given, length);
        ASSERT_EQ(got.extents(), (Extents{3, length}));
        EXPECT_THAT(tokens_of(got), ElementsAreArray(wanted));
      }
    }
  }
}

TEST(GreedySearch, TakesTheLikeliestToken) { check({}); }
TEST(GreedySearch, PenalisesRepetition) { check({.penalty = 1.7F}); }
TEST(GreedySearch, RepeatsNoPair) { check({.n_gram = 2}); }
TEST(GreedySearch, EndsNotTooEarly) { check({.end = 1, .least = 8}); }

TEST(GreedySearch, StopsWhereAllHaveEnded) {
  Tokens wanted = expected({.end = -1}, {1, 2, 5}, 10);
  Search search;
  search.end = wanted[4];
  const auto end = std::find(wanted.begin() + 3, wanted.end(), search.end);
  *end = search.pad;
  std::fill(end + 1, wanted.end(), 0);
  EXPECT_THAT(tokens_of(run(e2e::load(model_of(search, false)), search, {1, 3}, {1, 2, 5}, 10)),
              ElementsAreArray(wanted));
}

TEST(GreedySearch, RefusesBadInput) {
  const Session session = e2e::load(model_of({}, false));
  const auto message = [&](const Extents& extents, const Tokens& prompt, std::int32_t length, float penalty) {
    try {
      run(session, {.penalty = penalty}, extents, prompt, length);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({1, 2}, {1, 2}, 1, 1), HasSubstr("max_length is 1"));
  EXPECT_THAT(message({1, 0}, {}, 4, 1), HasSubstr("prompts of 0 tokens"));
  EXPECT_THAT(message({1, 2}, {1, 2}, 4, 0), HasSubstr("repetition_penalty"));
  EXPECT_THAT(message({1, 2}, {1, 9}, 4, 2), HasSubstr("index 9 is out of range"));
  EXPECT_THAT(message({1, 2}, {1, 2}, INT32_MAX, 1), HasSubstr("sequences"));
}

}  // namespace
}  // namespace kiln
