// Models for end-to-end tests: the digits of examples/, and architecture models made by the zoo's generator
// where it is there ($KILN_SHARED/zoo, by default ../shared/zoo beside the source).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <kiln/kiln.h>

namespace kiln::testing {

// The folder of shared test data, or nothing.
std::optional<std::string> shared_folder();

// The path of a generated zoo model, made on first use in a folder of the temporary directory; nothing if the
// generator or its Python packages are missing.
std::optional<std::string> zoo_model(const std::string& name);

// Inputs for every symbolic dim bound by name; floats uniform in [-1, 1), integers in [0, 100), masks 1.
std::vector<NamedTensor> random_inputs(const Session& session,
                                       const std::vector<std::pair<std::string, std::int64_t>>& dims,
                                       std::uint64_t seed);

// sqrt(sum (got - want)^2 / sum want^2) of f32 `got` against f64 (or f32) `want`; infinity if extents differ.
double relative_error(const Tensor& got, const Tensor& want);

}  // namespace kiln::testing
