// Extents that a model declares for its inputs and that a run contradicts: what is given counts.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::elements;
using e2e::floats;
using frontend::testing::graph_attribute;
using frontend::testing::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DeclaredExtents : public ::testing::TestWithParam<KernelChoice> {
 protected:
  Session load(const ModelBuilder& model) {
    Options options;
    options.kernels = GetParam();
    options.warn = [this](std::string_view line) {
      if (line.find("declares") != std::string_view::npos) warnings_.emplace_back(line);
    };
    return e2e::load(model, std::move(options));
  }

  std::vector<std::string> warnings_;
};

// y = x + bias, x declared as 1 x 3.
ModelBuilder biased() {
  ModelBuilder model(18);
  model.input("x", {1, 3}).floats("bias", {3}, {10, 20, 30});
  model.node("Add", {"x", "bias"}, {"y"});
  return model.output("y");
}

TEST_P(DeclaredExtents, AnotherBatchRunsAfterOneWarning) {
  const Session session = load(biased());
  EXPECT_THAT(elements(session.run({{"x", floats({1, 3}, {1, 2, 3})}})[0]), ElementsAre(11, 22, 33));
  EXPECT_THAT(warnings_, SizeIs(0));
  const auto given = session.run({{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  EXPECT_EQ(given[0].extents(), (Extents{2, 3}));
  EXPECT_THAT(elements(given[0]), ElementsAre(11, 22, 33, 14, 25, 36));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("input x is 2x3, the model declares 1x3"));
  EXPECT_THAT(session.run({{"x", floats({0, 3}, {})}})[0].extents(), ElementsAre(0, 3));
  EXPECT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(elements(session.run({{"x", floats({1, 3}, {1, 2, 3})}})[0]), ElementsAre(11, 22, 33));
}

TEST_P(DeclaredExtents, AnotherRankRuns) {
  const Session session = load(biased());
  EXPECT_THAT(elements(session.run({{"x", floats({3}, {1, 2, 3})}})[0]), ElementsAre(11, 22, 33));
  EXPECT_EQ(session.run({{"x", floats({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6})}})[0].extents(),
            (Extents{1, 2, 1, 3}));
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_P(DeclaredExtents, WhatCannotBeNamesInputAndNode) {
  const Session session = load(biased());
  try {
    session.run({{"x", floats({1, 4}, {1, 2, 3, 4})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller);
    EXPECT_THAT(error.what(), HasSubstr("input x is 1x4, the model declares 1x3"));
  }
  EXPECT_THAT(elements(session.run({{"x", floats({1, 3}, {1, 2, 3})}})[0]), ElementsAre(11, 22, 33));
}

// A branch that the declared extents decide while loading.
TEST_P(DeclaredExtents, WhatTheyDecidedIsDecidedAnew) {
  ModelBuilder model(18);
  model.input("x", {1, 3}).integers("one", {1}, {1}).integers("zero", {1}, {0});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Slice", {"shape", "zero", "one"}, {"batch"});
  model.node("Equal", {"batch", "one"}, {"single"});
  auto& branch = model.node("If", {"single"}, {"y"});
  auto& then = graph_attribute(branch, "then_branch");
  ModelBuilder::add_node(*then.mutable_node(), "Neg", {"x"}, {"a"});
  then.add_output()->set_name("a");
  auto& otherwise = graph_attribute(branch, "else_branch");
  ModelBuilder::add_node(*otherwise.mutable_node(), "Abs", {"x"}, {"b"});
  otherwise.add_output()->set_name("b");
  model.output("y");
  const Session session = load(model);
  EXPECT_THAT(elements(session.run({{"x", floats({1, 3}, {-1, 2, 3})}})[0]), ElementsAre(1, -2, -3));
  EXPECT_THAT(elements(session.run({{"x", floats({2, 1}, {-1, 2})}})[0]), ElementsAre(1, 2));
  EXPECT_THAT(elements(session.run({{"x", floats({1, 3}, {-1, 2, 3})}})[0]), ElementsAre(1, -2, -3));
}

// There is an end to what contradictions can make a Session hold, and symbols still bind.
TEST_P(DeclaredExtents, EveryContradictionIsRight) {
  ModelBuilder model(18);
  model.input("a", {1, 1, 1, 1, "n"}).input("b", {1, 1, 1, 1, "n"});
  model.node("Add", {"a", "b"}, {"y"});
  model.output("y");
  const Session session = load(model);
  for (unsigned wrong = 0; wrong < 16; ++wrong) {
    Extents extents;
    std::int64_t count = 2;
    for (unsigned axis = 0; axis < 4; ++axis) {
      extents.push_back((wrong >> axis & 1) != 0 ? 2 : 1);
      count *= extents.back();
    }
    extents.push_back(2);
    const std::vector<float> values(static_cast<std::size_t>(count), 1.5F);
    const auto y = session.run({{"a", floats(extents, values)}, {"b", floats({1, 1, 1, 1, 2}, {1, 2})}});
    EXPECT_EQ(y[0].extents(), extents);
    EXPECT_EQ(elements(y[0])[0], 2.5F);
    EXPECT_EQ(elements(y[0]).back(), 3.5F);
  }
  if (GetParam() != KernelChoice::Generated) return;
  try {
    session.run({{"a", floats({1, 1, 1, 2, 2}, {1, 2, 3, 4})}, {"b", floats({1, 1, 1, 1, 1}, {1})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("dimension n is 2 by input a and 1 by input b"));
  }
}

// Some of these contradict in ways of their own, some not at all, and one can be run in no way.
TEST_P(DeclaredExtents, ManyThreadsContradictAtOnce) {
  ModelBuilder model = biased();
  model.input("z", {1, 1, 2});
  model.node("Neg", {"z"}, {"n"});
  model.output("n");
  Options options;
  options.kernels = GetParam();
  const Session session = e2e::load(model, std::move(options));
  std::atomic<int> wrong = 0;
  const auto work = [&](int thread) {
    for (int i = 0; i < 30; ++i) {
      const std::int64_t rows = 1 + (thread + i) % 3, a = 1 + i % 2, b = 1 + thread % 2;
      const auto value = static_cast<float>(thread * 100 + i);
      const auto filled = [&](const Extents& extents, std::int64_t count) {
        return floats(extents, std::vector<float>(static_cast<std::size_t>(count), value));
      };
      const Tensor z = filled({a, b, 2}, a * b * 2);
      const auto got = session.run({{"x", filled({rows, 3}, rows * 3)}, {"z", z}});
      if (got[0].extents() != Extents{rows, 3} || elements(got[0]).back() != value + 30) ++wrong;
      if (got[1].extents() != z.extents() || elements(got[1]).back() != -value) ++wrong;
      try {
        session.run({{"x", filled({rows, 4}, rows * 4)}, {"z", z}});
        ++wrong;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::Caller) ++wrong;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread) threads.emplace_back(work, thread);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, DeclaredExtents,
                         ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& kernels) {
                           return kernels.param == KernelChoice::Generated ? "generated" : "reference";
                         });

}  // namespace
}  // namespace kiln
