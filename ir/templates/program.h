// A Program: what a Region becomes. Kernels in order, with the Values they exchange; sizes are Dims over the
// Symbols of the Problem, so that one Program serves every Signature that its guard admits.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/problem.h"
#include "ir/tile/kernel.h"
#include "ir/tile/schedule.h"

namespace kiln::templates {

// Memory that Kernels of a Program read and write.
struct ProgramValue {
  enum class Kind : std::uint8_t {
    Input,      // of the Problem, number `index`
    Output,     // of the Problem, number `index`
    Workspace,  // between Kernels; lives for one run
    Prepared,   // written by prepare Kernels once per model, then read only
  };
  Kind kind = Kind::Workspace;
  int index = 0;             // Input, Output
  DType dtype = DType::F32;  // Workspace, Prepared
  graph::Dim elements = 0;   // Workspace, Prepared; constant for Prepared
};

// How a memory-view parameter sees a ProgramValue: element (i...) lies at offset + sum i_k * strides[k]
// elements from the start of the Value's storage. For an Input or Output these follow its Layout.
struct ViewBinding {
  int value = 0;  // index into Program::values
  graph::Dim offset = 0;
  std::vector<graph::Dim> extents;
  std::vector<graph::Dim> strides;
};

// The value of a scalar parameter: an i64 computed from Symbols, or a literal.
using ScalarBinding = std::variant<graph::Dim, tile::Literal>;

struct KernelLaunch {
  tile::Kernel kernel;
  tile::Schedule schedule;
  std::vector<std::variant<ViewBinding, ScalarBinding>> arguments;  // one per parameter
  // Work of one program instance, to decide whether to split the grid over threads.
  graph::Dim flops_per_program = 0;
  graph::Dim bytes_per_program = 0;
};

struct Program {
  std::vector<ProgramValue> values;
  // Run once per model, when the constants' content is at hand: read constant Inputs, write Prepared Values.
  std::vector<KernelLaunch> prepare;
  std::vector<KernelLaunch> kernels;
  // Names the prepared form (PackFormat and its parameters): equal keys on equal constants share one copy.
  std::string prepare_key;
};

}  // namespace kiln::templates
