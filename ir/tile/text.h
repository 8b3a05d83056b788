// The text form of Kernels. parse_kernel(print(k)) equals k; nested expressions and operators are sugar that
// the parser accepts and print() undoes. docs/tile-ir.md is the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Values of meta parameters by name: an extent, or a dtype by its number.
using MetaBindings = std::map<std::string, std::int64_t, std::less<>>;

struct MetaParameter {
  std::string name;
  bool is_dtype = false;
  std::vector<std::int64_t> choices;  // from `tune NAME in [...]`; may be empty
};

// The meta parameters of each kernel in `source`, without building it.
struct KernelSignature {
  std::string name;
  std::vector<MetaParameter> meta_parameters;
};
std::vector<KernelSignature> parse_signatures(std::string_view source, std::string_view file_name);

// Every kernel in `source`, specialised with `bindings`; a meta parameter without a binding takes its first
// tune choice, else 64 or f32. Kernels are verified. Throws Error (caller) with "file:line:column". Bounded:
// sizes and nesting have limits, so that hostile text is refused, never a crash.
std::vector<Kernel> parse_kernels(std::string_view source, std::string_view file_name,
                                  const MetaBindings& bindings = {});

std::string print(const Kernel& kernel);

}  // namespace kiln::tile
