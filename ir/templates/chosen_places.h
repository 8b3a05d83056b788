// Operators whose index operands choose single elements of a tensor, or runs of them: where those lie.
//
// The tensor is seen as a row of places in memory. A Kernel computes the place of each element of a box,
// keeps the places in local memory, and reads or writes the tensor through a gather of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/templates/iteration_space.h"
#include "ir/templates/program_builder.h"

namespace kiln::templates {

// Which element of the target (the data of a gather, the result of a scatter) belongs to each element of a
// shape (the result of a gather, the updates of a scatter): one along whose axes some coordinates are taken
// over, and the others come from indices.
struct ChosenPlaces {
  struct Index {
    graph::ValueId operand;
    std::vector<graph::Dim> strides;  // with which it is read over the shape
    graph::Dim offset = 0;
    graph::Dim extent, step;  // of the target's axis that it is for
  };
  graph::Shape shape;
  std::vector<graph::Dim> steps;  // in the target, along the axes of the shape that are taken over; else 0
  std::vector<Index> indices;
  // The axis of the shape along which the index is no position, but a length up to which order is reversed.
  std::optional<std::size_t> reversed;
  // Axes of the shape on which the order of writing depends, ascending.
  std::vector<int> ordered;
};

// Why Kernels cannot find the places of the root, a GatherElements, GatherND, ReverseSequence,
// ScatterElements or ScatterND; nothing if they can.
std::optional<std::string> why_no_places(const graph::Problem& problem);
ChosenPlaces chosen_places(const graph::Problem& problem);

// The first operands of the IterationSpace that a PlaceTable needs.
std::vector<std::vector<graph::Dim>> place_strides(const ChosenPlaces& places);

class PlaceTable {
 public:
  // Binds the index operands over `space`, whose first operands are place_strides(). Lanes of
  // a box run along axis `lanes`; along it the target is read or written in runs where no index varies.
  PlaceTable(ProgramBuilder& program, ProgramBuilder::Launch& launch, const graph::Problem& problem,
             const ChosenPlaces& places, const IterationSpace& space, std::size_t lanes);

  // The target as a parameter: its places, then along a run.
  struct Target {
    std::vector<graph::Dim> extents, strides;
    graph::Dim offset = 0;
  };
  const Target& target() const { return target_; }

  // Memory for the places of a box of these extents; at the top of the Kernel's body.
  void reserve(std::vector<std::int64_t> box);
  // The elements of `target` for the box at `at`, as a view; the box in it lies at from() and has extents().
  tile::View choose(const tile::View& target, const tile::Indices& at);
  tile::Indices from(const tile::Indices& at) const;
  std::vector<std::int64_t> extents() const;

 private:
  tile::Operand bound(const std::string& name, const graph::Dim& dim);
  tile::Expr coordinate(std::size_t axis, const tile::Indices& at) const;
  tile::Expr places(const tile::Indices& at) const;

  struct Axis {
    tile::Operand extent, step;
  };

  ProgramBuilder::Launch& launch_;
  tile::KernelBuilder& k_;
  const IterationSpace& space_;
  std::size_t lanes_;
  bool runs_ = false, reverses_;
  std::optional<std::size_t> reversed_;  // axis of the space, if it has more than one element
  Target target_;
  std::vector<tile::View> index_views_;
  std::vector<Axis> chosen_;          // per index
  std::vector<tile::Operand> steps_;  // per axis of the space
  tile::Operand start_, span_;        // the place of element 0; the number of places
  std::vector<std::int64_t> box_;     // of the table: 1 along a run
  std::int64_t run_ = 1;
  tile::View table_;
};

}  // namespace kiln::templates
