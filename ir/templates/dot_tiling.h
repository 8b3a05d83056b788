// What every Template round `dot` shares: the register tile, and constants packed into panels for it.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/target.h"
#include "ir/templates/program_builder.h"

namespace kiln::templates {

// A panel is `panel` columns of B, contiguous for each k: what one pass of the micro-kernel multiplies.
struct DotTiling {
  std::int64_t panel = 0;  // columns: register_vectors native vectors
  int register_rows = 0;
  int register_vectors = 0;
};

// For `columns` columns (tile::kDynamic if unknown) of an accumulator of `accumulator` dtype.
DotTiling dot_tiling(std::int64_t columns, DType accumulator, const Target& target);

// The dtype that a dot of these operands accumulates in; nothing if there is no such dot.
std::optional<DType> accumulator_dtype(DType operand);

// A matrix seen as [groups, depth..., columns]: the strides of its elements in the Problem's input.
struct PackedSource {
  int value = 0;
  graph::Shape extents;  // groups, depth axes..., columns; all constant
  std::vector<graph::Dim> strides;
  std::vector<bool> backwards{};  // axes that are read from their ends; empty: none
  bool constant = true;           // its content is
};

// Adds a Value laid out [groups][panels][depth...][panel], columns beyond the end zero, and the Kernel that
// fills it: once if the content is constant, else in every run. Gives the Value's number; its extents are
// packed_extents().
int add_packed(ProgramBuilder& program, const PackedSource& source, const DotTiling& tiling, DType dtype);
graph::Shape packed_extents(const PackedSource& source, const DotTiling& tiling);
std::string pack_key(const DotTiling& tiling);

}  // namespace kiln::templates
