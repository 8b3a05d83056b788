// Sizes that only show while running, read as values: by outputs, by kernels, by shapes of others.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::elements;
using e2e::floats;
using e2e::load;
using frontend::testing::graph_attribute;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using ::testing::ElementsAre;

class MadeSizes : public ::testing::TestWithParam<KernelChoice> {
 protected:
  static constexpr int kFloat = onnx::TensorProto::FLOAT;

  static std::vector<float> values(std::int64_t nonzero) {
    std::vector<float> x(7, 0);
    for (std::int64_t i = 0; i < nonzero; ++i) x[static_cast<std::size_t>((i * 3) % 7)] = 2.0F;
    return x;
  }
};

TEST_P(MadeSizes, AreOutputs) {
  ModelBuilder model(18);
  model.input("x", {"n"});
  model.node("NonZero", {"x"}, {"places"});
  model.node("Shape", {"places"}, {"shape"});
  model.node("Size", {"places"}, {"count"});
  model.node("Mul", {"count", "count"}, {"square"});
  set(model.node("Cast", {"count"}, {"number"}), "to", std::int64_t{kFloat});
  model.output("shape").output("count").output("square").output("number");
  const Session session = load(model, {.kernels = GetParam()});
  for (const std::int64_t nonzero : {3, 0, 7, 1}) {
    const Tensor x = floats({7}, values(nonzero));
    const auto got = session.run({{"x", x}});
    EXPECT_THAT(got[0].to_integers(), ElementsAre(1, nonzero));
    EXPECT_THAT(got[1].to_integers(), ElementsAre(nonzero));
    EXPECT_THAT(got[2].to_integers(), ElementsAre(nonzero * nonzero));
    EXPECT_THAT(elements(got[3]), ElementsAre(static_cast<float>(nonzero)));
    std::vector<Tensor> own = {Tensor(DType::I64, {2}), Tensor(DType::I64, {}), Tensor(DType::I64, {}),
                               Tensor(DType::F32, {})};
    const std::byte* memory = own[0].data();
    session.run(std::vector<Tensor>{x}, own);
    EXPECT_EQ(own[0].data(), memory);
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], got[i]);
  }
}

// The kernel that reads the count has no size that is still to be made, but must wait for it.
TEST_P(MadeSizes, AreReadByKernels) {
  ModelBuilder model(18);
  model.input("x", {"n"});
  model.node("NonZero", {"x"}, {"places"});
  model.node("Size", {"places"}, {"count"});
  set(model.node("Cast", {"count"}, {"number"}), "to", std::int64_t{kFloat});
  model.node("ReduceSum", {"x"}, {"sum"});
  model.node("Div", {"sum", "number"}, {"mean"});
  model.node("Sqrt", {"number"}, {"root"});
  model.node("Gather", {"x", "count"}, {"there"});
  model.output("mean").output("root").output("there");
  const Session session = load(model, {.kernels = GetParam()});
  for (const std::int64_t nonzero : {3, 6, 1}) {
    const std::vector<float> x = values(nonzero);
    const auto got = session.run({{"x", floats({7}, x)}});
    EXPECT_THAT(elements(got[0]), ElementsAre(2));
    EXPECT_THAT(elements(got[1]), ElementsAre(std::sqrt(static_cast<float>(nonzero))));
    EXPECT_THAT(elements(got[2]), ElementsAre(x[static_cast<std::size_t>(nonzero)]));
  }
}

TEST_P(MadeSizes, AreOutputsOfBranches) {
  ModelBuilder model(18);
  model.input("c", {}, onnx::TensorProto::BOOL).input("x", {"n"});
  auto& branch = model.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = graph_attribute(branch, name);
    ModelBuilder::add_node(*body.mutable_node(), "NonZero", {"x"}, {"places"});
    ModelBuilder::add_node(*body.mutable_node(), "Shape", {"places"}, {"shape"});
    body.add_output()->set_name("shape");
  }
  model.output("y");
  const Session session = load(model, {.kernels = GetParam()});
  Tensor yes(DType::I1, {});
  for (const std::int64_t nonzero : {2, 5}) {
    EXPECT_THAT(session.run({{"c", yes}, {"x", floats({7}, values(nonzero))}})[0].to_integers(),
                ElementsAre(1, nonzero));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MadeSizes,
                         ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& kernels) {
                           return kernels.param == KernelChoice::Generated ? "generated" : "reference";
                         });

}  // namespace
}  // namespace kiln
