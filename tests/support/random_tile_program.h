// Random tile programs with their arguments, from a seed: to compare passes, printers and lowerings with the
// interpreter. Every program verifies, ends, stays in bounds and divides by nothing that can be 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ir/tile/interpreter.h"
#include "ir/tile/kernel.h"

namespace kiln::tile {

struct RandomProgramOptions {
  // Elementwise functions that may occur, primitive or not, on operands of a dtype. Empty: all.
  std::function<bool(Function, DType)> allows;
  // dtypes of tiles. Empty: all that compute.
  std::vector<DType> dtypes;
  // Reductions, scans and dots whose result depends on the order of evaluation.
  bool inexact_reductions = false;
  int steps = 24;
};

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed, const RandomProgramOptions& options = {});

  Kernel kernel;
  struct Buffer {
    DType dtype;
    std::vector<std::byte> bytes;
    std::int64_t offset = 0;
    std::vector<std::int64_t> extents;
    std::vector<std::int64_t> strides;
    bool is_output = false;
  };
  std::vector<Buffer> buffers;  // one per parameter

  // Over these buffers, or over a copy of them.
  std::vector<Argument> arguments() { return arguments(buffers); }
  static std::vector<Argument> arguments(std::vector<Buffer>& buffers);
};

// The first difference in an output, as text; empty if there is none. Elements are equal if their bits are,
// or if both are NaN.
std::string difference(std::span<const RandomProgram::Buffer> want,
                       std::span<const RandomProgram::Buffer> got);

}  // namespace kiln::tile
