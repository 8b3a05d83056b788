#include "jit/cpu/dot_problem.h"

#include <algorithm>

namespace kiln::jit::cpu {

using tile::Kernel;
using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::ValueId;

DotProblem dot_problem(const Kernel& kernel, OpId dot) {
  const Op& op = kernel.op(dot);
  DotProblem problem;
  problem.dot = dot;
  problem.initial = op.operands[0];
  problem.a = op.operands[1];
  problem.b = op.operands[2];
  problem.shape = tile::dot_shape(kernel.type(op.operands[0]), kernel.type(op.operands[1]),
                                  kernel.type(op.operands[2]), op.attributes.count);
  return problem;
}

std::optional<DotProblem> contract_problem(const Kernel& kernel, OpId contract,
                                           const std::vector<OpId>& definers) {
  const Op& op = kernel.op(contract);
  const tile::Block& block = kernel.block(op.blocks[0]);
  const std::size_t count = op.attributes.sizes.size();
  if (op.results.size() != 1) return std::nullopt;
  const ValueId yielded = kernel.op(block.ops.back()).operands[0];
  const OpId dot = definers[yielded.index];
  if (!dot || kernel.op(dot).code != Opcode::Dot || kernel.op(dot).operands[0] != block.arguments[count]) {
    return std::nullopt;
  }
  if (std::find(block.ops.begin(), block.ops.end(), dot) == block.ops.end()) return std::nullopt;
  DotProblem problem = dot_problem(kernel, dot);
  problem.initial = op.operands[count];
  for (std::size_t i = 0; i < count; ++i) {
    problem.indices.push_back({block.arguments[i], op.operands[i], op.attributes.sizes[i]});
  }
  return problem;
}

std::optional<LoadedOperand> loaded_operand(const Kernel& kernel, const std::vector<OpId>& definers,
                                            const DotProblem& problem, ValueId value, bool depth_last) {
  const auto definer = [&](ValueId id) -> const Op* {
    const OpId op = definers[id.index];
    return op ? &kernel.op(op) : nullptr;
  };
  // Reshapes keep the row-major order of elements, so that only the box of the load matters.
  const Op* op = definer(value);
  while (op && op->code == Opcode::Reshape) {
    value = op->operands[0];
    op = definer(value);
  }
  std::vector<std::int64_t> order;
  if (op && op->code == Opcode::Transpose) {
    order = op->attributes.axes;
    value = op->operands[0];
    op = definer(value);
  }
  if (!op || op->code != Opcode::Load) return std::nullopt;
  LoadedOperand operand;
  operand.load = definers[value.index];
  operand.view = op->operands[0];
  const int rank = kernel.type(operand.view).rank();
  operand.box = tile::box_extents(kernel.type(value), rank);
  // The axes of the view in the order of the matrix.
  std::vector<int> axes;
  const int tile_rank = kernel.type(value).rank();
  if (order.empty()) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  } else {
    for (const std::int64_t axis : order) axes.push_back(static_cast<int>(axis) + rank - tile_rank);
  }
  std::erase_if(axes, [&](int axis) { return axis < 0 || operand.box[static_cast<std::size_t>(axis)] == 1; });

  const tile::DotShape& shape = problem.shape;
  const std::int64_t free = depth_last ? shape.rows : shape.columns;
  auto next = axes.begin();
  const auto take = [&](std::int64_t extent, std::vector<int>& part) {
    std::int64_t taken = 1;
    while (taken < extent && next != axes.end()) {
      taken *= operand.box[static_cast<std::size_t>(*next)];
      part.push_back(*next++);
    }
    return taken == extent;
  };
  if (!take(shape.batch, operand.batch)) return std::nullopt;
  if (!take(depth_last ? free : shape.depth, depth_last ? operand.free : operand.depth)) return std::nullopt;
  if (!take(depth_last ? shape.depth : free, depth_last ? operand.depth : operand.free)) return std::nullopt;
  return operand;
}

std::optional<int> depth_index(const Kernel& kernel, const DotProblem& problem,
                               const LoadedOperand& operand) {
  if (operand.depth.size() != 1) return std::nullopt;
  const auto axis = static_cast<std::size_t>(operand.depth[0]);
  const ValueId at = kernel.op(operand.load).operands[1 + axis];
  for (std::size_t i = 0; i < problem.indices.size(); ++i) {
    if (problem.indices[i].argument == at && problem.indices[i].block == operand.box[axis])
      return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace kiln::jit::cpu
