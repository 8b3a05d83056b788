// A Template: one kernel family. Registering one in templates.def is enough to be swept against the
// reference, benchmarked, tuned and documented.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/target.h"
#include "ir/graph/problem.h"
#include "ir/templates/program.h"

namespace kiln::templates {

// Named integers that a Template builds a Program from: block sizes, register tile, ...
using Parameters = std::map<std::string, std::int64_t, std::less<>>;

// A Program choice for a range of sizes. `guard` (absent: always) admits a Signature when
// low <= value of dim <= high. It chooses speed; every Variant is correct for every size it admits.
struct Guard {
  graph::Dim dim = 0;
  std::int64_t low = 0;
  std::int64_t high = INT64_MAX;
};
struct VariantChoice {
  std::string name;  // "default", "few_rows", ...
  std::optional<Guard> guard;
  Parameters parameters;
};

struct Template {
  std::string_view name;
  int version = 1;  // part of tuning records: bump when `build` gives other code for the same parameters

  // Nothing if the Template builds this Problem, else the reason why not, printed by `kiln explain`.
  std::optional<std::string> (*refuses)(const graph::Problem& problem, const Target& target);
  // The Variants to compile: the first has no guard and is the default.
  std::vector<VariantChoice> (*variants)(const graph::Problem& problem, const Target& target);
  // The Program. All Parameters that `variants` named are given.
  Program (*build)(const graph::Problem& problem, const Parameters& parameters, const Target& target);
  // Problems that exercise the family: extents 1, tile-1, tile, tile+1, prime, empty, large; dtypes; layouts.
  struct Sample {
    graph::Problem problem;
    std::vector<graph::Bindings> sizes;  // values of the Problem's Symbols
    std::string label;
    // Inputs whose elements are indices into an axis of another input.
    struct IndexInput {
      std::size_t input = 0, data = 0, axis = 0;
    };
    std::vector<IndexInput> index_inputs;
    // False where NaN, infinities and denormals only show the order of roundings.
    bool special_numbers = true;
  };
  std::vector<Sample> (*samples)(const Target& target);
};

// Every registered Template, in the order in which regions try them.
std::span<const Template> all();
const Template* find(std::string_view name);

}  // namespace kiln::templates
