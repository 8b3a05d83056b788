// Kernels written as tile text (*.tile), checked and run without a model. docs/tile-ir.md is the language.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/tensor.h>

namespace kiln {

// Values of meta parameters such as BLOCK; those not given take their first `tune` choice.
using KernelParameters = std::map<std::string, std::int64_t>;

struct KernelParameterInfo {
  std::string name;
  std::string type;    // "view<?x?xf32>", "i64"
  std::string access;  // "in", "out", "inout", or empty for a scalar
};

struct KernelInfo {
  std::string name;
  std::vector<std::string> meta_parameters;
  std::vector<KernelParameterInfo> parameters;
  std::string text;  // normal form, specialised
};

// Parses and verifies every kernel in `source`. Throws Error (caller) with file, line and column.
std::vector<KernelInfo> check_kernels(std::string_view source, std::string_view file_name,
                                      const KernelParameters& parameters = {});

enum class KernelEngine : std::uint8_t { Generated, Interpreter };

// Runs kernel `name` of `source` over its whole grid. `arguments`: a tensor for each parameter in order, a
// rank-0 one for a scalar; out and inout tensors are written. `target` as in Options.
void run_kernel(std::string_view source, std::string_view file_name, std::string_view name,
                const KernelParameters& parameters, const std::vector<Tensor>& arguments, KernelEngine engine,
                const std::string& target = "native");

// The LLVM IR or the assembly of a kernel: `listing` is "llvm" or "asm".
std::string kernel_listing(std::string_view source, std::string_view file_name, std::string_view name,
                           const KernelParameters& parameters, std::string_view listing,
                           const std::string& target = "native");

}  // namespace kiln
