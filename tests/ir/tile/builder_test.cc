#include "ir/tile/builder.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/base/checked_math.h"
#include "ir/tile/interpreter.h"

namespace kiln::tile {
namespace {

std::vector<Opcode> opcodes(const Kernel& kernel, BlockId block) {
  std::vector<Opcode> codes;
  for (const OpId op : kernel.block(block).ops) codes.push_back(kernel.op(op).code);
  return codes;
}

TEST(KernelBuilder, SoftmaxReadsLikeTriton) {
  constexpr std::int64_t kBlock = 128;
  KernelBuilder k("softmax");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic, kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic}));
  k.grid([&]() -> Indices { return {x.dim(0)}; });
  const Expr row = k.program_id(0);
  const Expr n = x.dim(1);
  const Expr top =
      k.loop(0, n, kBlock, {k.constant(DType::F32, -INFINITY)}, [&](Expr j, const Exprs& carried) -> Exprs {
        const Expr tile = x.load({row, j}, {1, kBlock}, -INFINITY);
        return {max(carried[0], k.reduce(Combiner::Max, tile, 1))};
      })[0];
  EXPECT_EQ(top.type(), Type::scalar(DType::F32));
  k.loop(0, n, kBlock, [&](Expr j) { y.store({row, j}, exp(x.load({row, j}, {1, kBlock}) - top)); });
  const Kernel kernel = k.finish();

  EXPECT_EQ(kernel.grid_rank(), 1);
  ASSERT_EQ(kernel.parameters.size(), 2u);
  EXPECT_EQ(kernel.parameters[1].access, Access::Out);
  const Block& body = kernel.block(kernel.body);
  const auto loop = std::find_if(body.ops.begin(), body.ops.end(),
                                 [&](OpId op) { return kernel.op(op).code == Opcode::For; });
  ASSERT_NE(loop, body.ops.end());
  // The yielded maximum is a tile<1xf32>; the carried value is a scalar.
  EXPECT_EQ(opcodes(kernel, kernel.op(*loop).blocks[0]),
            (std::vector{Opcode::Constant, Opcode::Load, Opcode::Reduce, Opcode::Elementwise, Opcode::Reshape,
                         Opcode::Yield}));
}

TEST(KernelBuilder, NumbersTakeTheDtypeOfTheOtherOperand) {
  KernelBuilder k("numbers");
  const Expr half = k.full(DType::F16, {4}, 1.5);
  EXPECT_EQ((half * 2 + 1.0).type(), Type::tile(DType::F16, {4}));
  EXPECT_EQ((k.index(7) - 1).type(), Type::index());
  EXPECT_EQ((half < 0).type(), Type::tile(DType::I1, {4}));
  EXPECT_EQ(select(half < 0, half, 0).type(), half.type());
  EXPECT_EQ(ldexp(half, 3).type(), half.type());
  EXPECT_EQ(ldexp(k.full(DType::F64, {2}, 1), 3).type(), Type::tile(DType::F64, {2}));
  EXPECT_EQ(fma(half, 2, 1).type(), half.type());
  EXPECT_EQ((k.full(DType::F32, {4, 1}, 1) + k.full(DType::F32, {3}, 1)).type(),
            Type::tile(DType::F32, {4, 3}));
}

TEST(KernelBuilder, IndexArithmeticRoundsForEverySign) {
  for (const std::int64_t a : {-13, -12, -1, 0, 1, 11, 12, 13}) {
    for (const std::int64_t b : {-4, -1, 1, 4}) {
      KernelBuilder k("index");
      const View y = k.output("y", Type::view(DType::I64, {3}));
      y.store({0}, floordiv(k.index(a), b));
      y.store({1}, ceildiv(k.index(a), k.index(b)));
      y.store({2}, mod(k.index(a), b));
      std::vector<std::int64_t> out(3);
      interpret(k.finish(),
                std::vector<Argument>{ViewArgument{std::as_writable_bytes(std::span(out)), 0, {3}, {1}}});
      EXPECT_EQ(out[0], floor_divide(a, b)) << a << " " << b;
      EXPECT_EQ(out[1], ceil_divide(a, b)) << a << " " << b;
      EXPECT_EQ(out[2], floor_modulo(a, b)) << a << " " << b;
    }
  }
}

TEST(KernelBuilder, MisuseThrowsAtOnce) {
  KernelBuilder k("misuse");
  const Expr a = k.full(DType::F32, {4}, 1);
  const Expr b = k.full(DType::F32, {3}, 1);
  EXPECT_THROW(a + b, Error);
  EXPECT_THROW(a + k.full(DType::F64, {4}, 1), Error);
  EXPECT_THROW(k.index(1) + 1.5, Error);
  EXPECT_THROW(k.reduce(Combiner::Sum, a, 1), Error);
  EXPECT_THROW(k.constant(DType::I32, 0.5), Error);
  EXPECT_THROW(Expr().type(), Error);
  const View x = k.input("x", Type::view(DType::F32, {kDynamic, 4}));
  EXPECT_THROW(x.load({0}, {4}), Error);
  EXPECT_THROW(x.dim(2), Error);
  EXPECT_THROW(x.load({0, a}, {4}), Error);
  EXPECT_THROW(k.loop(0, 4, 1, {a}, [&](Expr, const Exprs&) -> Exprs { return {}; }), Error);
}

TEST(KernelBuilder, ViewsKeepWhatIsStatic) {
  KernelBuilder k("views");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic, 8, 6}));
  EXPECT_EQ(x.transpose({2, 0, 1}).type().extents, (std::vector<std::int64_t>{6, kDynamic, 8}));
  EXPECT_EQ(x.merge({1, 2}).type().extents, (std::vector<std::int64_t>{kDynamic, 48}));
  EXPECT_EQ(x.broadcast({1}, {3}).type().rank(), 4);
  EXPECT_EQ(x.window({.axes = {1, 2}, .kernel = {3, 3}, .low = {1, 1}, .high = {1, 1}}).type().extents,
            (std::vector<std::int64_t>{kDynamic, kDynamic, kDynamic, 3, 3}));
  EXPECT_EQ(k.local(DType::F32, {4, x.dim(0)}, 64).type().extents, (std::vector<std::int64_t>{4, kDynamic}));
}

}  // namespace
}  // namespace kiln::tile
