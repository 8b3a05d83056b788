// Sessions of models built in tests, and their tensors.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <kiln/kiln.h>

#include "tests/frontend/model_builder.h"

namespace kiln::e2e {

// Without a kernel cache, whatever the options say.
inline Session load(const frontend::testing::ModelBuilder& model, Options options = {}) {
  const std::string bytes = model.bytes();
  options.cache = "off";
  return Session::load_bytes(std::as_bytes(std::span(bytes)), "", options);
}

inline Tensor floats(Extents extents, const std::vector<float>& values) {
  return Tensor::from(DType::F32, std::move(extents), std::span<const float>(values));
}

inline std::vector<float> elements(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

}  // namespace kiln::e2e
