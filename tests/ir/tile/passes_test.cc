#include "ir/tile/passes/passes.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ir/tile/builder.h"
#include "ir/tile/interpreter.h"
#include "ir/tile/text.h"
#include "ir/tile/verifier.h"
#include "tests/support/random_tile_program.h"

namespace kiln::tile {
namespace {

int count(const Kernel& kernel, Opcode code) {
  int found = 0;
  for (const Op& op : kernel.ops) found += op.code == code;
  return found;
}

// What the passes make of random programs gives the same bits.
class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, PassesKeepTheirMeaning) {
  RandomProgramOptions options;
  options.inexact_reductions = true;
  RandomProgram program(static_cast<std::uint64_t>(GetParam()), options);
  std::vector<RandomProgram::Buffer> before = program.buffers, after = program.buffers;
  interpret(program.kernel, RandomProgram::arguments(before));

  Kernel kernel = program.kernel;
  expand_functions(kernel);
  ASSERT_NO_THROW(verify(kernel)) << print(program.kernel);
  simplify(kernel);
  ASSERT_NO_THROW(verify(kernel)) << print(program.kernel);
  interpret(kernel, RandomProgram::arguments(after));
  EXPECT_EQ(difference(before, after), "") << print(program.kernel);

  // A second time there is nothing left to do.
  const std::vector<std::byte> bytes = canonical_bytes(kernel);
  simplify(kernel);
  EXPECT_EQ(canonical_bytes(kernel), bytes);
}

TEST_P(RandomPrograms, PrintAndParseAsThemselves) {
  const RandomProgram program(static_cast<std::uint64_t>(GetParam()));
  const std::string text = print(program.kernel);
  const std::vector<Kernel> parsed = parse_kernels(text, "random.tile");
  ASSERT_EQ(parsed.size(), 1u) << text;
  EXPECT_EQ(canonical_bytes(parsed[0]), canonical_bytes(program.kernel)) << text;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0, 200));

TEST(Simplify, MergesWhatIsComputedTwiceAndDropsWhatIsUnused) {
  KernelBuilder k("twice");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), 8)}; });
  const Expr at = k.program_id(0) * 8;
  const Expr again = k.program_id(0) * 8;
  const Expr v = x.load({at}, {8});
  const Expr unused = exp(v) * 3;
  static_cast<void>(unused);
  k.loop(0, 4, 1, [&](Expr) { static_cast<void>(x.load({at}, {8}) + 1); });
  y.store({again}, v * 2 + v * 2);
  Kernel kernel = k.finish();
  simplify(kernel);
  verify(kernel);
  EXPECT_EQ(count(kernel, Opcode::ProgramId), 1);
  EXPECT_EQ(count(kernel, Opcode::For), 0);
  EXPECT_EQ(count(kernel, Opcode::Load), 1);
  const Block& body = kernel.block(kernel.body);
  int functions = 0;
  for (const OpId op : body.ops) functions += kernel.op(op).code == Opcode::Elementwise;
  EXPECT_EQ(functions, 3);  // the index, v * 2, the sum
}

TEST(Simplify, FoldsConstants) {
  KernelBuilder k("fold");
  const View y = k.output("y", Type::view(DType::I64, {4}));
  const Expr n = y.dim(0);
  y.store({floordiv(n * 0 + 7, 2) - 3}, k.splat(ceildiv(n + 3, 4) + 0, {4}));
  Kernel kernel = k.finish();
  simplify(kernel);
  EXPECT_EQ(count(kernel, Opcode::Elementwise), 0);
  std::vector<std::int64_t> out(4);
  const std::vector<Argument> arguments = {ViewArgument{std::as_writable_bytes(std::span(out)), 0, {4}, {1}}};
  interpret(kernel, arguments);
  EXPECT_EQ(out, (std::vector<std::int64_t>{2, 2, 2, 2}));
}

TEST(Simplify, InlinesWhatRunsOnce) {
  KernelBuilder k("once");
  const View x = k.input("x", Type::view(DType::F32, {5}));
  const View y = k.output("y", Type::view(DType::F32, {4}));
  const Expr sum =
      k.loop(0, x.dim(0), 8, {k.constant(DType::F32, 1)}, [&](Expr j, const Exprs& carried) -> Exprs {
        return {carried[0] + k.reduce(Combiner::Sum, x.load({j}, {8}), 0)};
      })[0];
  const Expr nothing = k.loop(3, 3, 1, {sum}, [&](Expr, const Exprs& carried) -> Exprs {
    y.store({0}, carried[0]);
    return {carried[0] * 2};
  })[0];
  const Expr side = k.branch(
      gt(x.dim(0), 4), [&]() -> Exprs { return {nothing + 1}; },
      [&]() -> Exprs {
        y.store({1}, nothing);
        return {nothing};
      })[0];
  y.store({2}, side);
  Kernel kernel = k.finish();
  simplify(kernel);
  verify(kernel);
  EXPECT_EQ(count(kernel, Opcode::For) + count(kernel, Opcode::If), 0);
  EXPECT_EQ(count(kernel, Opcode::Store), 1);
  std::vector<float> in = {1, 2, 3, 4, 5}, out(4);
  const std::vector<Argument> arguments = {ViewArgument{std::as_writable_bytes(std::span(in)), 0, {5}, {1}},
                                           ViewArgument{std::as_writable_bytes(std::span(out)), 0, {4}, {1}}};
  interpret(kernel, arguments);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 17, 0}));
}

TEST(Simplify, KeepsWhatMayFail) {
  KernelBuilder k("fails");
  const Expr divisor = k.scalar("divisor", DType::I64);
  static_cast<void>(k.index(1) / divisor);
  static_cast<void>(k.index(1) / 0);
  Kernel kernel = k.finish();
  simplify(kernel);
  EXPECT_EQ(count(kernel, Opcode::Elementwise), 2);
}

TEST(Simplify, DoesNotMoveLoadsOverStores) {
  KernelBuilder k("memory");
  const View x = k.inout("x", Type::view(DType::F32, {2}));
  const Expr before = x.load({0});
  x.store({0}, before + 1);
  x.store({1}, x.load({0}) * before);
  Kernel kernel = k.finish();
  simplify(kernel);
  EXPECT_EQ(count(kernel, Opcode::Load), 2);
  std::vector<float> data = {3, 0};
  const std::vector<Argument> arguments = {
      ViewArgument{std::as_writable_bytes(std::span(data)), 0, {2}, {1}}};
  interpret(kernel, arguments);
  EXPECT_EQ(data, (std::vector<float>{4, 12}));
}

TEST(Expand, LeavesPrimitivesAloneAndNoFunctionBehind) {
  KernelBuilder k("expand");
  const View y = k.output("y", Type::view(DType::F16, {8}));
  Expr v = k.full(DType::F16, {8}, 0.5);
  k.loop(0, 2, 1, [&](Expr) { y.store({0}, gelu(tanh(v) + sin(v))); });
  Kernel kernel = k.finish();
  expand_functions(kernel);
  verify(kernel);
  for (const Op& op : kernel.ops) {
    EXPECT_TRUE(op.code != Opcode::Elementwise || is_primitive(op.attributes.function));
  }
}

}  // namespace
}  // namespace kiln::tile
