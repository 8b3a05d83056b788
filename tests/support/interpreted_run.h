// Runs a Model's Programs in the tile interpreter: checks passes, Layouts, Regions and Templates without the
// code generator.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <kiln/tensor.h>

#include "runtime/model.h"

namespace kiln::testing {

struct InterpretedRun {
  std::vector<Tensor> outputs;
  std::vector<std::string> fallbacks;  // regions without a Template, which ran on reference kernels
};

// `variant` picks among the Variants that admit the sizes: 0 is the default one, higher numbers count on and
// wrap.
InterpretedRun run_interpreted(const runtime::Model& model, std::span<const Tensor> inputs,
                               const Target& target, std::size_t variant = 0);

// Tensors with values that are easy to tell apart: uniform in [-1, 1), integers in [0, 10).
Tensor random_tensor(DType dtype, Extents extents, std::uint64_t seed);

// |got - want| <= absolute + relative * |want| element by element, NaN equal to NaN; empty if so, else what
// differs.
std::string difference(const Tensor& got, const Tensor& want, double absolute = 1e-5, double relative = 1e-4);

}  // namespace kiln::testing
