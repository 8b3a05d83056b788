// Runs a Kernel by its definition, one program instance after the other: the meaning of the language and the
// oracle of its tests. Slow and exact: IEEE per operation, reductions in index order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// An argument for a memory-view parameter. `bytes` is the memory that the view may touch, for bounds checks;
// the view's element 0 lies `offset` elements into it. Strides in elements.
struct ViewArgument {
  std::span<std::byte> bytes;
  std::int64_t offset = 0;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
};
using Argument = std::variant<ViewArgument, Literal>;

// Runs the whole grid. Throws Error: caller/type_mismatch for arguments that do not fit, index_out_of_range
// or division_by_zero with the program coordinate, limit_exceeded for a local above its maximum or an
// instance whose values need more than 1 GiB, internal for an access outside `bytes`, caller/invalid_argument
// for a failed Assert or a loop step below 1. Functions that are not primitive mean their expansions. A Local
// starts with every byte 0xff. `print` gets the lines of Print.
void interpret(const Kernel& kernel, std::span<const Argument> arguments,
               const std::function<void(std::string_view)>& print = {});

// The grid's extents for these arguments.
std::vector<std::int64_t> grid_extents(const Kernel& kernel, std::span<const Argument> arguments);

// One elementwise primitive on scalars (constant folding, tests). Throws Error (division_by_zero).
Literal evaluate(Function primitive, std::span<const Literal> operands);
Literal cast(Literal value, DType dtype);

}  // namespace kiln::tile
