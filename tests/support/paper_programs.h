// The paper test: the programs of tests/golden/tile run on arguments of many sizes and compared with plain
// loops in f64. Whatever executes Kernels passes the same test.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/tile/interpreter.h"
#include "ir/tile/kernel.h"

namespace kiln::tile {

// Runs the whole grid of a Kernel.
using Executor = std::function<void(const Kernel&, std::span<const Argument>)>;

struct PaperCase {
  std::string name;  // program and sizes, made of letters, digits and underscores
  // The first difference from the plain loops, as text; empty if there is none.
  std::function<std::string(const Executor&)> run;
};

std::vector<PaperCase> paper_cases();

// By file.
std::vector<PaperCase> paper_rows();          // softmax, layer norm, sums, bias and activation
std::vector<PaperCase> paper_products();      // GEMM, split precision, quantised, concat and pad folded in
std::vector<PaperCase> paper_convolutions();  // direct, Winograd, depthwise, pooling
std::vector<PaperCase> paper_sequences();     // attention, LSTM, embedding, scatter

}  // namespace kiln::tile
