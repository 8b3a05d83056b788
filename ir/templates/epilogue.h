// What follows a Region's root inside its Kernel: the other elementwise nodes, applied to a tile of the
// root's result, and the stores of the Region's outputs.
#pragma once

#include <functional>
#include <vector>

#include "ir/templates/iteration_space.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/program_builder.h"

namespace kiln::templates {

// The Problem's inputs that nodes other than the root read, in order.
std::vector<std::size_t> epilogue_inputs(const graph::Problem& problem);

// Why the Region cannot be a root with an epilogue; nothing if it can: every other node has a tile
// expression, and every output has the shape of the root's result.
std::optional<std::string> why_no_epilogue(const graph::Problem& problem);

// Strides over the root's result of each of epilogue_inputs(), then of each output.
void append_epilogue_strides(const graph::Problem& problem, std::vector<std::vector<graph::Dim>>& strides);

class Epilogue {
 public:
  // Binds a view for each of epilogue_inputs() and each output over `space`, whose operands are in that order
  // from number `first_operand` on.
  Epilogue(ProgramBuilder& program, ProgramBuilder::Launch& launch, const graph::Problem& problem,
           const IterationSpace& space, std::size_t first_operand);

  // A view over the space, for grid extents.
  const tile::View& output() const { return outputs_.front(); }

  // Says what another result of the root is.
  void define(graph::ValueId id, tile::Expr value);

  // Applies everything to the root's result for the box of `extents` at `at`, and stores.
  void finish(tile::Expr root_result, const tile::Indices& at, const std::vector<std::int64_t>& extents);

 private:
  const graph::Problem& problem_;
  NodeEmitter emitter_;
  tile::KernelBuilder& builder_;
  std::vector<std::size_t> inputs_;
  std::vector<tile::View> input_views_, outputs_;
};

// Arithmetic and bytes of the epilogue per element of the root's result.
std::int64_t epilogue_flops(const graph::Problem& problem);
std::int64_t epilogue_bytes(const graph::Problem& problem);

}  // namespace kiln::templates
