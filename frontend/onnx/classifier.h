// What the classifiers and regressors of ai.onnx.ml have in common. Where the standard leaves it open, scores
// are those of ONNX Runtime (docs/numerics.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// The input as a matrix of [N, features] of f32 or f64: integers become `integers_as`.
ValueId sample_matrix(Translation& node, std::int64_t features, DType integers_as = DType::F32);

class ClassLabels {
 public:
  // Takes the attribute that is given: `integers` or "classlabels_strings". One of them must be.
  ClassLabels(Translation& node, std::string_view integers);

  std::int64_t count() const { return count_; }
  bool are_strings() const { return strings_; }
  // Output 0: the label of each class number in a vector of i64.
  void finish(Translation& node, ValueId classes) const;
  // Output 0 of a model with one score: of two labels the second where the score is above `threshold`; else 1
  // where it is and 0 where not, unless the only label is a string.
  void finish_binary(Translation& node, ValueId scores, double threshold) const;

 private:
  ValueId values_;
  std::int64_t count_ = 0;
  bool strings_ = false;
};

// The name of the transform, checked.
std::string take_post_transform(Translation& node);
// Scores of [N, K]. One score alone is transformed by PROBIT only.
ValueId post_transformed(Translation& node, ValueId scores, const std::string& transform);
// Both columns of a model with one score, [N, 1]: (1 - s, s) if it is a probability, else (-s, s); LOGISTIC
// applies to the latter.
ValueId two_columns(Translation& node, ValueId score, const std::string& transform, bool probability);

// Output `index`: `value` as f32.
void finish_as_float(Translation& node, std::size_t index, ValueId value);

}  // namespace kiln::frontend
