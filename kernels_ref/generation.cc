// GreedySearch of com.microsoft: text from a GPT-2 decoder, the likeliest token at each step. Scores are
// logits, bent as ONNX Runtime bends them: repetition penalty, n-grams, vocabulary masks, least length, in
// this order.
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/bodies.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/pieces.h"

namespace kiln::reference {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr double kNever = std::numeric_limits<double>::lowest();
constexpr std::size_t kOperands = 7;  // of the node, before the captures of its graphs

std::int64_t optional_integer(const Call& call, std::size_t index, std::int64_t absent) {
  return call.has_input(index) ? to_integer(call.input(index)) : absent;
}

// What bends the scores.
struct Rules {
  explicit Rules(const Call& call)
      : end(integer(call.node, "eos_token_id")),
        n_gram(integer(call.node, "no_repeat_ngram_size")),
        least_length(optional_integer(call, 2, 0)),
        penalty(call.has_input(3) ? to_number(call.input(3)) : 1),
        mask(optional_integers(call, 4)),
        prefix_mask(optional_integers(call, 5)) {
    if (!(penalty > 0)) {
      throw_caller(ErrorCode::InvalidArgument, "repetition_penalty is {}, expected a number above 0",
                   penalty);
    }
  }

  std::int64_t end, n_gram, least_length;
  double penalty;
  std::vector<std::int64_t> mask,
      prefix_mask;  // of a vocabulary; of a batch of them, for the first token alone
};

void expect_mask(const char* what, const std::vector<std::int64_t>& mask, std::size_t expected) {
  if (mask.empty() || mask.size() == expected) return;
  throw_caller(ErrorCode::ShapeMismatch, "{} has {} elements, expected {}", what, mask.size(), expected);
}

// Tokens that would complete an n-gram that is there already.
std::set<std::int32_t> repeating(const Tokens& tokens, std::size_t n) {
  std::set<std::int32_t> result;
  for (std::size_t i = 0; i + n <= tokens.size(); ++i) {
    if (std::equal(tokens.end() - static_cast<std::ptrdiff_t>(n - 1), tokens.end(),
                   tokens.begin() + static_cast<std::ptrdiff_t>(i))) {
      result.insert(tokens[i + n - 1]);
    }
  }
  return result;
}

void bend(const Rules& rules, const Tokens& tokens, std::span<double> scores) {
  const auto score = [&](std::int64_t token) -> double& {
    if (token < 0 || token >= static_cast<std::int64_t>(scores.size())) {
      throw_caller(ErrorCode::InvalidArgument, "token {} is outside the vocabulary of {}", token,
                   scores.size());
    }
    return scores[static_cast<std::size_t>(token)];
  };
  if (rules.penalty != 1) {
    for (const std::int32_t token : std::set<std::int32_t>(tokens.begin(), tokens.end())) {
      double& bent = score(token);
      bent = bent < 0 ? bent * rules.penalty : bent / rules.penalty;
    }
  }
  if (rules.n_gram > 0) {
    for (const std::int32_t token : repeating(tokens, static_cast<std::size_t>(rules.n_gram))) {
      score(token) = kNever;
    }
  }
  for (std::size_t i = 0; i < rules.mask.size(); ++i) {
    if (rules.mask[i] == 0) scores[i] = kNever;
  }
  if (static_cast<std::int64_t>(tokens.size()) < rules.least_length) score(rules.end) = kNever;
}

// The first of the greatest; NaN is above all.
std::int32_t likeliest(std::span<const double> scores) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < scores.size() && !std::isnan(scores[best]); ++i) {
    if (std::isnan(scores[i]) || scores[i] > scores[best]) best = i;
  }
  return static_cast<std::int32_t>(best);
}

Tensor integers_tensor(const std::vector<Tokens>& rows) {
  const auto columns = rows.empty() ? 0 : rows[0].size();
  Tensor tensor(DType::I32, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)});
  auto next = tensor.as_mutable<std::int32_t>().begin();
  for (const Tokens& row : rows) next = std::copy(row.begin(), row.end(), next);
  return tensor;
}

std::vector<Tokens> rows_of(const Tensor& tensor) {
  const std::int64_t batch = tensor.extents()[0], length = tensor.extents()[1];
  const std::int32_t* next = tensor.as<std::int32_t>().data();
  std::vector<Tokens> rows;
  for (std::int64_t b = 0; b < batch; ++b, next += length) rows.emplace_back(next, next + length);
  return rows;
}

// A past of no tokens, as the decoder declares it: 2 x batch x heads x 0 x size.
Tensor empty_past(const Call& call, const graph::Value& input, std::int64_t batch) {
  Extents extents = {2, batch, (*input.shape)[2].constant(), 0, (*input.shape)[4].constant()};
  return {call.promoted(input.dtype), std::move(extents)};
}

}  // namespace

void greedy_search(Call& call) {
  const graph::Graph& first = body_of(call, "init_decoder");
  const graph::Graph& next = body_of(call, "decoder");
  const Rules rules(call);
  const auto pad = static_cast<std::int32_t>(integer(call.node, "pad_token_id"));
  const Tensor& prompt = call.input(0);
  expect_rank("input_ids", prompt, 2);
  const std::int64_t batch = prompt.extents()[0], given = prompt.extents()[1];
  const std::int64_t length = to_integer(call.input(1));
  if (given == 0 || length < given) {
    throw_caller(ErrorCode::InvalidArgument,
                 "max_length is {} for prompts of {} tokens, expected 1 to {} of them", length, given,
                 length);
  }
  expect_bounded(Extents{batch, length}, "sequences");
  std::vector<Tokens> sequences = rows_of(prompt);

  // Attention sees all but padding; positions count what it sees.
  std::vector<Tokens> mask, positions;
  if (call.has_input(6)) {
    expect_extents("attention_mask", call.input(6), prompt.extents());
    mask = rows_of(call.input(6));
  } else {
    for (const Tokens& tokens : sequences) {
      Tokens& row = mask.emplace_back();
      for (const std::int32_t token : tokens) row.push_back(token == pad ? 0 : 1);
    }
  }
  Tokens seen;
  for (const Tokens& row : mask) {
    Tokens& numbers = positions.emplace_back();
    std::int32_t count = 0;
    for (const std::int32_t visible : row) numbers.push_back(visible == 0 ? 0 : count++);
    seen.push_back(count);
  }

  std::vector<Datum> inputs = {prompt, integers_tensor(positions), integers_tensor(mask)};
  for (std::size_t i = inputs.size(); i < first.inputs.size() - first.captures; ++i) {
    inputs.emplace_back(empty_past(call, first.value(first.inputs[i]), batch));
  }
  std::vector<bool> ended(sequences.size(), false);
  for (std::int64_t step = given; step < length; ++step) {
    const bool starts = step == given;
    const std::size_t captures = kOperands + (starts ? 0 : first.captures);
    append(inputs, call, captures, captures + (starts ? first : next).captures);
    std::vector<Datum> outputs = run(call, starts ? first : next, std::move(inputs));
    const Tensor& logits = outputs[0].tensor();
    if (logits.rank() != 3 || logits.extents()[0] != batch || logits.extents()[1] < 1 ||
        logits.extents()[2] < 1) {
      throw_caller(ErrorCode::ShapeMismatch,
                   "the decoder gives logits of {}, expected {} x tokens x vocabulary",
                   to_string(logits.extents()), batch);
    }
    const auto vocabulary = static_cast<std::size_t>(logits.extents()[2]);
    expect_mask("vocab_mask", rules.mask, vocabulary);
    expect_mask("prefix_vocab_mask", rules.prefix_mask, sequences.size() * vocabulary);
    std::vector<double> numbers = to_numbers(piece(call, logits, 1, logits.extents()[1] - 1, 1));
    std::vector<Tokens> chosen;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      const std::span<double> scores = std::span(numbers).subspan(b * vocabulary, vocabulary);
      bend(rules, sequences[b], scores);
      for (std::size_t i = 0; starts && i < vocabulary && !rules.prefix_mask.empty(); ++i) {
        if (rules.prefix_mask[b * vocabulary + i] == 0) scores[i] = kNever;
      }
      const std::int32_t token = likeliest(scores);
      if (token == rules.end) ended[b] = true;
      chosen.push_back({ended[b] ? pad : token});
      sequences[b].push_back(chosen.back()[0]);
      mask[b].push_back(1);
    }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) break;
    std::vector<Tokens> next_positions;
    for (std::int32_t& count : seen) next_positions.push_back({count++});
    inputs = {integers_tensor(chosen), integers_tensor(next_positions), integers_tensor(mask)};
    inputs.insert(inputs.end(), std::make_move_iterator(outputs.begin() + 1),
                  std::make_move_iterator(outputs.end()));
  }
  Tensor& result = call.output(0, DType::I32, {batch, length});
  std::fill_n(result.mutable_data(), result.byte_size(), std::byte{0});
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    std::copy(sequences[b].begin(), sequences[b].end(),
              result.as_mutable<std::int32_t>().begin() + static_cast<std::ptrdiff_t>(b) * length);
  }
}

}  // namespace kiln::reference
