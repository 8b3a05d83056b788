// Runs the samples of a Template as generated code and compares with the reference kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ir/templates/template.h"

namespace kiln::testing {

struct ExamOptions {
  Target target;
  // Changes a Program before it is compiled: how tests see that the exam notices a wrong kernel.
  std::function<void(templates::Program&)> sabotage;
};

// Every Variant at every size that its guard admits: on random numbers, and on random numbers strewn with
// NaN, infinities, signed zeros, denormals and the extremes of integers. Checks results, and that nothing
// beside them is written. Empty, or what is wrong first.
std::string examine(const templates::Template& candidate, const templates::Template::Sample& sample,
                    const ExamOptions& options);

}  // namespace kiln::testing
