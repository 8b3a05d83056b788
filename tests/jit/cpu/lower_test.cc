// Compiled kernels against the interpreter.
#include <cmath>
#include <cstring>
#include <random>

#include "ir/tile/builder.h"
#include "tests/support/kernel_runner.h"

namespace kiln::jit {
namespace {

using tile::Argument;
using tile::Combiner;
using tile::Expr;
using tile::Exprs;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Type;
using tile::View;
using tile::ViewArgument;

struct Matrix {
  std::vector<std::int64_t> extents;
  std::vector<float> data;
  explicit Matrix(std::vector<std::int64_t> e) : extents(std::move(e)) {
    std::int64_t n = 1;
    for (const std::int64_t x : extents) n *= x;
    data.resize(static_cast<std::size_t>(n), -7.0f);
  }
  Matrix& fill(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& x : data) x = normal(random);
    return *this;
  }
  Argument argument() {
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t stride = 1;
    for (std::size_t k = extents.size(); k-- > 0;) {
      strides[k] = stride;
      stride *= extents[k];
    }
    return ViewArgument{std::as_writable_bytes(std::span(data)), 0, extents, strides};
  }
};

// Runs both and compares every element.
void expect_equal(const Kernel& kernel, const std::vector<Matrix>& matrices, double tolerance = 0) {
  std::vector<Matrix> expected = matrices;
  std::vector<Argument> arguments;
  for (Matrix& m : expected) arguments.push_back(m.argument());
  tile::interpret(kernel, arguments);
  for (const Isa isa : runnable_isas()) {
    std::vector<Matrix> got = matrices;
    arguments.clear();
    for (Matrix& m : got) arguments.push_back(m.argument());
    const KernelStatus status = compile_and_run(kernel, target_for_isa(isa), arguments);
    EXPECT_EQ(status.code, 0);
    for (std::size_t k = 0; k < got.size(); ++k) {
      for (std::size_t i = 0; i < got[k].data.size(); ++i) {
        const float want = expected[k].data[i], have = got[k].data[i];
        const bool same = std::bit_cast<std::uint32_t>(want) == std::bit_cast<std::uint32_t>(have) ||
                          (std::isnan(want) && std::isnan(have));
        const bool close = std::fabs(want - have) <= tolerance * std::max(1.0f, std::fabs(want));
        ASSERT_TRUE(tolerance == 0 ? same : close) << name(isa) << ": parameter " << k << " element " << i
                                                   << " is " << have << ", expected " << want;
      }
    }
  }
}

Type matrix() { return Type::view(DType::F32, {kDynamic, kDynamic}); }

TEST(Lower, AddsBias) {
  KernelBuilder k("bias");
  const View x = k.input("x", matrix());
  const View b = k.input("b", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0), ceildiv(x.dim(1), 128)}; });
  const Expr i = k.program_id(0), j = k.program_id(1) * 128;
  y.store({i, j}, x.load({i, j}, {1, 128}) + b.load({j}, {128}));
  const Kernel kernel = k.finish();
  for (const std::int64_t n : {0, 1, 15, 16, 17, 64, 127, 128, 129, 300}) {
    expect_equal(kernel, {Matrix({3, n}).fill(1), Matrix({n}).fill(2), Matrix({3, n})});
  }
}

// Blocks of 3 x 20 of which some lie behind the end of the arrays; extents that are taken for equal.
TEST(Lower, ProgramsBehindTheArrays) {
  for (const bool equal : {false, true}) {
    KernelBuilder k("behind");
    const View x = k.input("x", matrix());
    const View y = k.output("y", matrix());
    const View z = k.output("z", Type::view(DType::F32, {kDynamic}));
    if (equal) {
      k.assume_equal({{x.id(), 0}, {y.id(), 0}, {z.id(), 0}});
      k.assume_equal({{x.id(), 1}, {y.id(), 1}});
    }
    k.grid([&]() -> Indices { return {5, 4}; });
    const Expr i = k.program_id(0) * 3, j = k.program_id(1) * 20;
    const Expr tile = x.load({i, j}, {3, 20});
    y.store({i, j}, tile + 1.0);
    z.atomic_add({i}, k.reduce(Combiner::Max, tile, 1));
    const Kernel kernel = k.finish();
    for (const std::int64_t m : {0, 1, 3, 7, 15}) {
      for (const std::int64_t n : {0, 1, 19, 20, 41, 80}) {
        expect_equal(kernel, {Matrix({m, n}).fill(1), Matrix({m, n}), Matrix({m}).fill(2)});
      }
    }
  }
}

// Programs whose index along an axis is below its extent need no test of it; the others do.
TEST(Lower, ProgramsAlongOneExtent) {
  for (const int behind : {0, 1}) {
    KernelBuilder k("along");
    const View x = k.input("x", Type::view(DType::F32, {kDynamic, 40}));
    const View y = k.output("y", Type::view(DType::F32, {kDynamic, 40}));
    k.assume_equal({{x.id(), 0}, {y.id(), 0}});
    k.grid([&]() -> Indices { return {y.dim(0), 1}; });
    const Expr i = k.program_id(0) + behind;
    y.store({i, k.program_id(1)}, x.load({i, 0}, {1, 40}) * 2.0);
    const Kernel kernel = k.finish();
    for (const std::int64_t m : {0, 1, 2, 5})
      expect_equal(kernel, {Matrix({m, 40}).fill(1), Matrix({m, 40})});
  }
}

Kernel softmax(std::int64_t block) {
  KernelBuilder k("softmax");
  const View x = k.input("x", matrix());
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0)}; });
  const Expr r = k.program_id(0), n = x.dim(1);
  const View row = k.local(DType::F32, {n}, 65536);
  const Expr m =
      k.loop(0, n, block, {k.constant(DType::F32, -INFINITY)}, [&](Expr j, const Exprs& c) -> Exprs {
        return {max(c[0], k.reduce(Combiner::Max, x.load({r, j}, {1, block}, -INFINITY), 1))};
      })[0];
  const Expr s = k.loop(0, n, block, {k.constant(DType::F32, 0)}, [&](Expr j, const Exprs& c) -> Exprs {
    const Expr e = exp(x.load({r, j}, {1, block}, -INFINITY) - m);
    row.store({j}, e);
    return {c[0] + k.reduce(Combiner::Sum, e, 1)};
  })[0];
  k.loop(0, n, block, [&](Expr j) { y.store({r, j}, row.load({j}, {block}) / s); });
  return k.finish();
}

TEST(Lower, Softmax) {
  for (const std::int64_t block : {16, 512}) {
    const Kernel kernel = softmax(block);
    for (const std::int64_t n : {1, 2, 31, 64, 100, 1000}) {
      expect_equal(kernel, {Matrix({3, n}).fill(1), Matrix({3, n})}, 1e-6);
    }
  }
}

// Long chains and nested reductions stay bounded in code and in the compiler's stack.
TEST(Lower, DeepExpressions) {
  KernelBuilder k("deep");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), 64)}; });
  const Expr i = k.program_id(0) * 64;
  Expr v = x.load({i}, {64});
  for (int n = 0; n < 3000; ++n) v = v * 0.5 + 1.0;
  y.store({i}, v);
  expect_equal(k.finish(), {Matrix({70}).fill(1), Matrix({70})});
}

// What is read twice is looked at once, be it 2^40 times by way of its readers' readers.
TEST(Lower, SharedOperands) {
  KernelBuilder k("shared");
  const View x = k.input("x", matrix());
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0)}; });
  const Expr r = k.program_id(0);
  Expr v = x.load({r, 0}, {1, 100});
  for (int n = 0; n < 40; ++n) v = max(v * 0.5, v - 1.0);
  y.store({r, 0}, v - k.broadcast(k.reduce(Combiner::Max, v, 1), {1, 100}));
  const Kernel kernel = k.finish();
  for (const std::int64_t n : {1, 64, 99, 100}) {
    expect_equal(kernel, {Matrix({3, n}).fill(1), Matrix({3, n})});
  }
}

TEST(Lower, NestedReductions) {
  KernelBuilder k("nested");
  const View x = k.input("x", Type::view(DType::F32, {4, 5, 6, 7, 3, 16}));
  const View y = k.output("y", Type::view(DType::F32, {16}));
  k.grid([&]() -> Indices { return {1}; });
  Expr v = x.load({0, 0, 0, 0, 0, 0}, {4, 5, 6, 7, 3, 16});
  for (int n = 0; n < 5; ++n) v = k.reduce(Combiner::Max, v, 0);
  y.store({0}, v);
  expect_equal(k.finish(), {Matrix({4, 5, 6, 7, 3, 16}).fill(1), Matrix({16})});
}

// Beyond the end of x the sum's elements are not 0 but the row's own addend.
TEST(Lower, DeadElementsAreElements) {
  KernelBuilder k("dead");
  const View x = k.input("x", matrix());
  const View u = k.input("u", matrix());
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), 4)}; });
  const Expr i = k.program_id(0) * 4;
  y.store({i}, k.reduce(Combiner::Sum, x.load({i, 0}, {4, 200}) + u.load({i, 0}, {4, 1}), 1));
  const Kernel kernel = k.finish();
  for (const std::int64_t n : {0, 3, 64, 199, 200}) {
    expect_equal(kernel, {Matrix({6, n}).fill(1), Matrix({6, 1}).fill(2), Matrix({6})}, 1e-4);
  }
}

// Weights that rows share, a window over the rows, and padding above, below and at both ends.
TEST(Lower, DepthwiseConvolution) {
  KernelBuilder k("depthwise");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic, kDynamic, 20}));
  const View w = k.input("w", Type::view(DType::F32, {3, 3, 20}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic, 20}));
  k.grid([&]() -> Indices { return {y.dim(0), ceildiv(y.dim(1), 6)}; });
  const View window =
      x.window({.axes = {0, 1}, .kernel = {3, 3}, .low = {1, 1}, .high = {1, 1}, .value = 0.5});
  const Expr h = k.program_id(0), v = k.program_id(1) * 6;
  Expr sum = k.zeros(DType::F32, {1, 6, 20});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      sum = fma(k.reshape(window.load({h, v, i, j, 0}, {1, 6, 1, 1, 20}), {1, 6, 20}),
                w.load({i, j, 0}, {1, 1, 20}), sum);
    }
  }
  y.store({h, v, 0}, sum);
  const Kernel kernel = k.finish();
  for (const std::int64_t width : {1, 5, 6, 7, 13, 18}) {
    expect_equal(kernel,
                 {Matrix({4, width, 20}).fill(1), Matrix({3, 3, 20}).fill(2), Matrix({4, width, 20})});
  }
}

TEST(Lower, Transposes) {
  KernelBuilder k("transpose");
  const View x = k.input("x", matrix());
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), 32), ceildiv(x.dim(1), 32)}; });
  const Expr i = k.program_id(0) * 32, j = k.program_id(1) * 32;
  y.transpose({1, 0}).store({i, j}, x.load({i, j}, {32, 32}));
  const Kernel kernel = k.finish();
  for (const std::int64_t n : {1, 31, 32, 65})
    expect_equal(kernel, {Matrix({n, 37}).fill(1), Matrix({37, n})});
}

}  // namespace
}  // namespace kiln::jit
