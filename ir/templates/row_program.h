// The computation of a rows Region as a small dataflow over two kinds of values: *full* ones, which have an
// element for each element of a row, and *row* ones, of which a row has one. Reductions lead from full to
// row; each stage is one pass over the row, in which every value of that stage can be computed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/problem.h"
#include "ir/tile/builder.h"

namespace kiln::templates {

using RowValueId = int;

struct RowValue {
  enum class Kind : std::uint8_t { Input, Compute, Reduce };
  Kind kind = Kind::Compute;
  bool full = false;
  DType dtype = DType::F32;  // that it is computed in
  int stage = 0;  // Input, Compute: the first pass in which it can be had; Reduce: the pass that makes it
  bool costly = false;  // worth keeping for a later pass rather than computing again
  int input = -1;       // Input: number of the Problem's input
  std::vector<RowValueId> operands{};
  tile::Combiner combiner{};                                                               // Reduce
  std::function<tile::Expr(tile::KernelBuilder&, std::span<const tile::Expr>)> compute{};  // Compute
};

struct RowProgram {
  std::vector<RowValue> values;     // operands come first
  int stages = 0;                   // passes; full outputs are stored in the last
  std::vector<RowValueId> outputs;  // per output of the Problem
};

// Axes that the Region reduces over (ascending) in the space of `space_value`, the input of its root.
struct RowSpace {
  graph::Shape extents;
  std::vector<int> reduced;
};
std::optional<RowSpace> row_space(const graph::Problem& problem);

// How a Value of the Region stands to the rows: with all axes, with reduced axes of extent 1, or without
// them.
enum class RowAlignment : std::uint8_t { Full, Kept, Dropped };
std::optional<RowAlignment> alignment(const graph::Shape& shape, const RowSpace& space);

// True if the node reads operands of fewer axes by broadcasting them over the last ones: its result has all
// axes. Else they are those without the reduced axes. Where extents are equal the shapes do not tell.
bool broadcasts_over_rows(const graph::Problem& problem, const graph::Node& node, const RowSpace& space);

// Why the Region's nodes cannot be a RowProgram; nothing if they can.
std::optional<std::string> why_no_row_program(const graph::Problem& problem, const RowSpace& space);

// `input_is_full[i]`: whether input i varies along the row. `count` gives the number of elements of a row in
// a dtype, for means.
RowProgram row_program(const graph::Problem& problem, const RowSpace& space,
                       const std::vector<bool>& input_is_full,
                       const std::function<tile::Expr(tile::KernelBuilder&, DType)>& count);

}  // namespace kiln::templates
