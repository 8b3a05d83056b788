// Assembles a Program for a Problem: its Values and the bindings of Kernel parameters.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/templates/iteration_space.h"
#include "ir/templates/program.h"
#include "ir/tile/builder.h"

namespace kiln::templates {

class ProgramBuilder {
 public:
  // Values 0 .. inputs-1 are the Problem's inputs, then its outputs.
  explicit ProgramBuilder(const graph::Problem& problem);

  int input(std::size_t index) const { return static_cast<int>(index); }
  int output(std::size_t index) const { return static_cast<int>(problem_.graph.inputs.size() + index); }
  int workspace(DType dtype, graph::Dim elements);
  int prepared(DType dtype, graph::Dim elements);

  // A Kernel under construction and what its parameters are bound to.
  class Launch {
   public:
    Launch(ProgramBuilder& program, std::string name) : program_(program), builder_(std::move(name)) {}
    tile::KernelBuilder& builder() { return builder_; }
    tile::View input(std::string name, int value, std::span<const graph::Dim> extents,
                     std::span<const graph::Dim> strides, graph::Dim offset = 0);
    tile::View output(std::string name, int value, std::span<const graph::Dim> extents,
                      std::span<const graph::Dim> strides, graph::Dim offset = 0);
    // Memory that an earlier Kernel of the Program has written.
    tile::View inout(std::string name, int value, std::span<const graph::Dim> extents,
                     std::span<const graph::Dim> strides, graph::Dim offset = 0);
    tile::Expr scalar(std::string name, graph::Dim value);
    tile::Schedule& schedule() { return schedule_; }
    void cost(graph::Dim flops_per_program, graph::Dim bytes_per_program);

   private:
    friend class ProgramBuilder;
    tile::Type bind(int value, std::span<const graph::Dim> extents, std::span<const graph::Dim> strides,
                    graph::Dim offset);
    tile::View remember(tile::View view, std::span<const graph::Dim> extents);
    ProgramBuilder& program_;
    tile::KernelBuilder builder_;
    std::vector<std::pair<graph::Dim, std::vector<tile::ParameterExtent>>> equal_extents_;
    tile::Schedule schedule_;
    std::vector<std::variant<ViewBinding, ScalarBinding>> arguments_;
    graph::Dim flops_ = 0, bytes_ = 0;
  };

  void add(Launch& launch) { program_.kernels.push_back(finish(launch)); }
  void add_prepare(Launch& launch) { program_.prepare.push_back(finish(launch)); }
  void prepare_key(std::string key) { program_.prepare_key = std::move(key); }
  Program finish() { return std::move(program_); }

 private:
  DType dtype_of(int value) const;
  KernelLaunch finish(Launch& launch);

  const graph::Problem& problem_;
  Program program_;
};

// The number of the Problem's input that this Value is; nothing for a literal or a result of a node.
std::optional<std::size_t> input_number(const graph::Problem& problem, graph::ValueId id);

// An i1 tile that broadcasts over the box of these extents at `at`: true for elements inside the view.
tile::Expr elements_inside(tile::KernelBuilder& builder, const tile::View& view, const tile::Indices& at,
                           std::span<const std::int64_t> box);

// Sets a grid that covers `view` with boxes of these extents, and gives the first index of a program's box.
tile::Indices blocked_grid(tile::KernelBuilder& builder, const tile::View& view,
                           std::span<const std::int64_t> box);

}  // namespace kiln::templates
