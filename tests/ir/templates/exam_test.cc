// Every Template on all of its samples, as generated code for every ISA level of this machine.
#include "tests/support/exam.h"

#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"

namespace kiln {
namespace {

using templates::Template;

class TemplateExam : public ::testing::TestWithParam<std::tuple<std::string, Isa>> {};

TEST_P(TemplateExam, AgreesWithTheReference) {
  const auto& [name, isa] = GetParam();
  const Template& candidate = *templates::find(name);
  ASSERT_NE(candidate.samples, nullptr) << "a template without samples is not tested";
  const Target target = jit::target_for_isa(isa);
  const auto samples = candidate.samples(target);
  ASSERT_FALSE(samples.empty());
  for (const Template::Sample& sample : samples) {
    ASSERT_FALSE(sample.sizes.empty()) << sample.label;
    EXPECT_EQ(testing::examine(candidate, sample, {.target = target, .sabotage = {}}), "") << sample.label;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Template& candidate : templates::all()) result.emplace_back(candidate.name);
  return result;
}

std::string exam_name(const ::testing::TestParamInfo<TemplateExam::ParamType>& exam) {
  const auto& [name, isa] = exam.param;
  return name + (isa == Isa::X86_64_V4 ? "_v4" : "_v3");
}

INSTANTIATE_TEST_SUITE_P(All, TemplateExam,
                         ::testing::Combine(::testing::ValuesIn(names()),
                                            ::testing::ValuesIn(jit::runnable_isas())),
                         exam_name);

}  // namespace
}  // namespace kiln
