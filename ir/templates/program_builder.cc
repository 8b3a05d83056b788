#include "ir/templates/program_builder.h"

#include <algorithm>

namespace kiln::templates {

using graph::Dim;

ProgramBuilder::ProgramBuilder(const graph::Problem& problem) : problem_(problem) {
  for (std::size_t i = 0; i < problem.graph.inputs.size(); ++i) {
    program_.values.push_back({.kind = ProgramValue::Kind::Input,
                               .index = static_cast<int>(i),
                               .dtype = problem.graph.value(problem.graph.inputs[i]).dtype});
  }
  for (std::size_t i = 0; i < problem.graph.outputs.size(); ++i) {
    program_.values.push_back({.kind = ProgramValue::Kind::Output,
                               .index = static_cast<int>(i),
                               .dtype = problem.graph.value(problem.graph.outputs[i]).dtype});
  }
}

int ProgramBuilder::workspace(DType dtype, Dim elements) {
  program_.values.push_back(
      {.kind = ProgramValue::Kind::Workspace, .dtype = dtype, .elements = std::move(elements)});
  return static_cast<int>(program_.values.size()) - 1;
}

int ProgramBuilder::prepared(DType dtype, Dim elements) {
  program_.values.push_back(
      {.kind = ProgramValue::Kind::Prepared, .dtype = dtype, .elements = std::move(elements)});
  return static_cast<int>(program_.values.size()) - 1;
}

DType ProgramBuilder::dtype_of(int value) const {
  return program_.values[static_cast<std::size_t>(value)].dtype;
}

KernelLaunch ProgramBuilder::finish(Launch& launch) {
  for (auto& [dim, extents] : launch.equal_extents_) {
    if (extents.size() > 1) launch.builder_.assume_equal(std::move(extents));
  }
  return {.kernel = launch.builder_.finish(),
          .schedule = launch.schedule_,
          .arguments = std::move(launch.arguments_),
          .flops_per_program = launch.flops_,
          .bytes_per_program = launch.bytes_};
}

tile::Type ProgramBuilder::Launch::bind(int value, std::span<const Dim> extents, std::span<const Dim> strides,
                                        Dim offset) {
  arguments_.emplace_back(ViewBinding{.value = value,
                                      .offset = std::move(offset),
                                      .extents = {extents.begin(), extents.end()},
                                      .strides = {strides.begin(), strides.end()}});
  return view_type(program_.dtype_of(value), extents, strides);
}

// Run-time extents that are the same expression are equal.
tile::View ProgramBuilder::Launch::remember(tile::View view, std::span<const Dim> extents) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis].is_constant()) continue;
    auto group = std::find_if(equal_extents_.begin(), equal_extents_.end(),
                              [&](const auto& known) { return known.first == extents[axis]; });
    if (group == equal_extents_.end()) group = equal_extents_.insert(group, {extents[axis], {}});
    group->second.push_back({view.id(), static_cast<int>(axis)});
  }
  return view;
}

tile::View ProgramBuilder::Launch::input(std::string name, int value, std::span<const Dim> extents,
                                         std::span<const Dim> strides, Dim offset) {
  return remember(builder_.input(std::move(name), bind(value, extents, strides, std::move(offset))), extents);
}

tile::View ProgramBuilder::Launch::output(std::string name, int value, std::span<const Dim> extents,
                                          std::span<const Dim> strides, Dim offset) {
  return remember(builder_.output(std::move(name), bind(value, extents, strides, std::move(offset))),
                  extents);
}

tile::View ProgramBuilder::Launch::inout(std::string name, int value, std::span<const Dim> extents,
                                         std::span<const Dim> strides, Dim offset) {
  return remember(builder_.inout(std::move(name), bind(value, extents, strides, std::move(offset))), extents);
}

tile::Expr ProgramBuilder::Launch::scalar(std::string name, Dim value) {
  arguments_.emplace_back(ScalarBinding{std::move(value)});
  return builder_.scalar(std::move(name), DType::I64);
}

void ProgramBuilder::Launch::cost(Dim flops_per_program, Dim bytes_per_program) {
  flops_ = std::move(flops_per_program);
  bytes_ = std::move(bytes_per_program);
}

std::optional<std::size_t> input_number(const graph::Problem& problem, graph::ValueId id) {
  const auto& inputs = problem.graph.inputs;
  const auto found = std::find(inputs.begin(), inputs.end(), id);
  if (found == inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - inputs.begin());
}

tile::Expr elements_inside(tile::KernelBuilder& builder, const tile::View& view, const tile::Indices& at,
                           std::span<const std::int64_t> box) {
  tile::Expr inside = builder.constant_integer(DType::I1, 1);
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    if (box[axis] == 1) continue;
    std::vector<std::int64_t> extents(box.size(), 1);
    extents[axis] = box[axis];
    const tile::Expr offset = builder.iota(DType::I64, extents, static_cast<int>(axis));
    const tile::Expr first = at[axis].expr ? at[axis].expr : builder.index(at[axis].constant);
    inside = inside & tile::lt(first + offset, view.dim(static_cast<int>(axis)));
  }
  return inside;
}

tile::Indices blocked_grid(tile::KernelBuilder& builder, const tile::View& view,
                           std::span<const std::int64_t> box) {
  const int rank = static_cast<int>(box.size());
  builder.grid([&] {
    tile::Indices grid;
    for (int axis = 0; axis < rank; ++axis) {
      const tile::Expr extent = view.dim(axis);
      const std::int64_t block = box[static_cast<std::size_t>(axis)];
      grid.emplace_back(block == 1 ? extent : ceildiv(extent, block));
    }
    return grid;
  });
  tile::Indices first;
  for (int axis = 0; axis < rank; ++axis) {
    const tile::Expr id = builder.program_id(axis);
    const std::int64_t block = box[static_cast<std::size_t>(axis)];
    first.emplace_back(block == 1 ? id : id * block);
  }
  return first;
}

}  // namespace kiln::templates
