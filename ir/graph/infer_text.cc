// Operators on strings.
#include <algorithm>

#include "ir/graph/infer.h"

namespace kiln::graph {

void infer_string_split(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  if (!x) return;
  op.set_shape(1, x);
  Shape parts = *x;
  parts.push_back(op.fresh(0, x->size()));
  op.set_shape(0, parts);
}

void infer_string_normalizer(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::string& action = text(node, "case_change_action");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    op.fail(ErrorCode::InvalidModel, "case_change_action is \"{}\", expected NONE, LOWER or UPPER", action);
  }
  const std::optional<Shape>& x = op.shape_of_rank(0, 1, 2);
  if (!x) return;
  if (x->size() == 2) op.same((*x)[0], 1, "the first of two axes");
  Shape y = *x;
  if (has(node, "stopwords") && !texts(node, "stopwords").empty()) y.back() = op.fresh(0, y.size() - 1);
  op.set_shape(0, y);
}

void infer_tf_idf(Graph& graph, Node& node) {
  Inference op(graph, node);
  const bool words = op.input(0).dtype == DType::String;
  const std::string_view pool = words ? "pool_strings" : "pool_int64s";
  if (!has(node, pool)) op.fail(ErrorCode::InvalidModel, "attribute \"{}\" is missing", pool);
  const auto pool_size =
      static_cast<std::int64_t>(words ? texts(node, pool).size() : integers(node, pool).size());
  const auto counts = integers(node, "ngram_counts"), indexes = integers(node, "ngram_indexes");
  std::int64_t grams = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t begin = counts[i], end = i + 1 < counts.size() ? counts[i + 1] : pool_size;
    const auto length = static_cast<std::int64_t>(i) + 1;
    if (begin < 0 || end < begin || end > pool_size || (end - begin) % length != 0) {
      op.fail(ErrorCode::InvalidModel, "ngram_counts has {}-grams from {} to {} in a pool of {} items",
              length, begin, end, pool_size);
    }
    grams += (end - begin) / length;
  }
  if (indexes.empty() || static_cast<std::int64_t>(indexes.size()) != grams) {
    op.fail(ErrorCode::InvalidModel, "got {} ngram_indexes for {} n-grams, expected one for each",
            indexes.size(), grams);
  }
  constexpr std::int64_t kMostOutputs = std::int64_t{1} << 31;
  for (const std::int64_t index : indexes) {
    if (index < 0 || index >= kMostOutputs)
      op.fail(ErrorCode::InvalidModel, "ngram_indexes has {}, expected 0 to {}", index, kMostOutputs - 1);
  }
  if (has(node, "weights") && numbers(node, "weights").size() != indexes.size()) {
    op.fail(ErrorCode::InvalidModel, "got {} weights for {} n-grams, expected one for each",
            numbers(node, "weights").size(), grams);
  }
  const std::string& mode = text(node, "mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    op.fail(ErrorCode::InvalidModel, "mode is \"{}\", expected TF, IDF or TFIDF", mode);
  const std::int64_t shortest = integer(node, "min_gram_length"), longest = integer(node, "max_gram_length");
  if (shortest < 1 || longest < shortest || integer(node, "max_skip_count") < 0) {
    op.fail(ErrorCode::InvalidModel, "got n-grams of {} to {} items with {} skips, expected 1 <= min <= max",
            shortest, longest, integer(node, "max_skip_count"));
  }
  const std::optional<Shape>& x = op.shape_of_rank(0, 0, 2);
  if (!x) return;
  Shape y = {*std::max_element(indexes.begin(), indexes.end()) + 1};
  if (x->size() == 2) y.insert(y.begin(), (*x)[0]);
  op.set_shape(0, y);
}

void infer_tokenizer(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1, 2);
  if (!x) return;
  Shape tokens = *x;
  tokens.push_back(op.fresh(0, x->size()));
  op.set_shape(0, tokens);
}

void infer_murmur_hash(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, integer(node, "positive") != 0 ? DType::U32 : DType::I32);
  op.set_shape(0, op.shape(0));
}

}  // namespace kiln::graph
