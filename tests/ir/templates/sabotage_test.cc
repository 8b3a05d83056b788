// A wrong kernel does not pass the exam.
#include <gtest/gtest.h>

#include "tests/support/exam.h"
#include "tests/support/kernel_runner.h"

namespace kiln {
namespace {

using templates::KernelLaunch;
using templates::Program;
using templates::ProgramValue;
using templates::Template;
using templates::ViewBinding;

// Calls `change` for each view of a value of this kind that a (not preparing) kernel has.
void for_each_view(Program& program, ProgramValue::Kind kind,
                   const std::function<void(ViewBinding&)>& change) {
  for (KernelLaunch& launch : program.kernels) {
    for (auto& argument : launch.arguments) {
      auto* view = std::get_if<ViewBinding>(&argument);
      if (view != nullptr && program.values[static_cast<std::size_t>(view->value)].kind == kind)
        change(*view);
    }
  }
}

void read_one_further(Program& program) {
  for_each_view(program, ProgramValue::Kind::Input,
                [](ViewBinding& view) { view.offset = view.offset + graph::Dim(1); });
}

void write_one_before(Program& program) {
  for_each_view(program, ProgramValue::Kind::Output,
                [](ViewBinding& view) { view.offset = view.offset - graph::Dim(1); });
}

// Nothing is computed for the last index of the outermost axis that is known only when the kernel runs.
void leave_the_last_out(Program& program) {
  for_each_view(program, ProgramValue::Kind::Output, [](ViewBinding& view) {
    for (graph::Dim& extent : view.extents) {
      if (extent.is_constant()) continue;
      extent = extent - graph::Dim(1);
      return;
    }
  });
}

// Sums become differences, maxima minima.
void change_functions(Program& program) {
  for (KernelLaunch& launch : program.kernels) {
    for (tile::Op& op : launch.kernel.ops) {
      if (op.code != tile::Opcode::Elementwise || !is_float(launch.kernel.type(op.results[0]).element))
        continue;
      tile::Function& function = op.attributes.function;
      if (function == tile::Function::Add) function = tile::Function::Sub;
      if (function == tile::Function::Max) function = tile::Function::Min;
    }
  }
}

Target any_target() { return jit::target_for_isa(Isa::X86_64_V3); }

TEST(Sabotage, MemoryIsReadAndWrittenAtTheWrongPlace) {
  for (const Template& candidate : templates::all()) {
    const auto samples = candidate.samples(any_target());
    for (std::size_t i = 0; i < samples.size(); i += std::max<std::size_t>(samples.size() / 3, 1)) {
      SCOPED_TRACE(std::string(candidate.name) + ": " + samples[i].label);
      const bool reads = !samples[i].problem.graph.inputs.empty();
      if (reads) {
        EXPECT_NE(testing::examine(candidate, samples[i], {any_target(), read_one_further}), "");
      }
      EXPECT_NE(testing::examine(candidate, samples[i], {any_target(), write_one_before}), "");
    }
  }
}

TEST(Sabotage, AnIndexIsLeftOut) {
  for (const Template& candidate : templates::all()) {
    SCOPED_TRACE(candidate.name);
    const auto samples = candidate.samples(any_target());
    const auto dynamic = std::find_if(samples.begin(), samples.end(), [](const Template::Sample& sample) {
      const auto& shape = *sample.problem.graph.value(sample.problem.graph.outputs[0]).shape;
      return std::any_of(shape.begin(), shape.end(),
                         [](const graph::Dim& dim) { return !dim.is_constant(); });
    });
    ASSERT_NE(dynamic, samples.end());
    EXPECT_NE(testing::examine(candidate, *dynamic, {any_target(), leave_the_last_out}), "");
  }
}

TEST(Sabotage, ArithmeticIsWrong) {
  for (const char* name : {"map", "dot", "depthwise", "convolution", "rows", "scan", "pool", "gather"}) {
    const Template& candidate = *templates::find(name);
    int noticed = 0;
    for (const Template::Sample& sample : candidate.samples(any_target())) {
      noticed += testing::examine(candidate, sample, {any_target(), change_functions}).empty() ? 0 : 1;
      if (noticed > 0) break;
    }
    EXPECT_GT(noticed, 0) << name;
  }
}

}  // namespace
}  // namespace kiln
