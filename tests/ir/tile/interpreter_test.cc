// The interpreter, operation by operation, against what docs/tile-ir.md says.
#include "ir/tile/interpreter.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tile/builder.h"
#include "tests/ir/tile/tile_text_testing.h"
#include "tests/support/paper_array.h"

namespace kiln::tile {
namespace {

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

template <typename T>
Array<T> counting(std::vector<std::int64_t> extents) {
  Array<T> array(std::move(extents));
  std::iota(array.data().begin(), array.data().end(), T{0});
  return array;
}

// Builds a kernel of one program instance that stores what `body` gives, and runs it.
template <typename T>
std::vector<T> evaluate_tile(DType dtype, const std::function<Expr(KernelBuilder&)>& body) {
  KernelBuilder k("test");
  const View y = k.output("y", Type::view(dtype, {kDynamic}));
  const Expr value = body(k);
  EXPECT_EQ(value.type().element, dtype);
  y.store({0}, k.reshape(value, {value.type().elements()}));
  Array<T> out({value.type().elements()});
  const Kernel kernel = k.finish();
  interpret(kernel, std::vector{out.argument()});
  return out.data();
}
Integers integers(const std::function<Expr(KernelBuilder&)>& body) {
  return evaluate_tile<std::int64_t>(DType::I64, body);
}
Floats floats(const std::function<Expr(KernelBuilder&)>& body) {
  return evaluate_tile<float>(DType::F32, body);
}

// 0 1 2 / 3 4 5
Expr counting_tile(KernelBuilder& k, DType dtype = DType::I64) {
  return k.cast(k.iota(DType::I64, {2, 3}, 0) * 3 + k.iota(DType::I64, {2, 3}, 1), dtype);
}

TEST(Interpreter, ShapesOfTiles) {
  EXPECT_EQ(integers([](auto& k) { return counting_tile(k); }), (Integers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(integers([](auto& k) { return k.transpose(counting_tile(k), {1, 0}); }),
            (Integers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(integers([](auto& k) { return k.transpose(k.reshape(counting_tile(k), {1, 3, 2}), {2, 0, 1}); }),
            (Integers{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(integers([](auto& k) { return k.slice(counting_tile(k), {0, 1}, {2, 2}); }),
            (Integers{1, 2, 4, 5}));
  EXPECT_EQ(integers([](auto& k) {
              const Expr tile = counting_tile(k);
              return k.concat(std::vector<Expr>{tile, k.slice(tile, {0, 0}, {2, 1})}, 1);
            }),
            (Integers{0, 1, 2, 0, 3, 4, 5, 3}));
  EXPECT_EQ(integers([](auto& k) {
              const Expr tile = counting_tile(k);
              return k.concat(std::vector<Expr>{k.slice(tile, {1, 0}, {1, 3}), tile}, 0);
            }),
            (Integers{3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(
      integers([](auto& k) { return k.broadcast(k.slice(counting_tile(k), {0, 1}, {2, 1}), {2, 2, 2}); }),
      (Integers{1, 1, 4, 4, 1, 1, 4, 4}));
  EXPECT_EQ(integers([](auto& k) {
              return k.slice(counting_tile(k), {1, 0}, {1, 3}) + k.slice(counting_tile(k), {0, 0}, {2, 1});
            }),
            (Integers{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(integers([](auto& k) { return k.mask(counting_tile(k), 1, 2, -1); }),
            (Integers{0, 1, -1, 3, 4, -1}));
  EXPECT_EQ(integers([](auto& k) { return k.mask(counting_tile(k), 0, -5, 9); }),
            (Integers{9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(integers([](auto& k) { return k.mask(counting_tile(k), 0, 7, 9); }),
            (Integers{0, 1, 2, 3, 4, 5}));
}

TEST(Interpreter, IotaWrapsToItsDtype) {
  const auto bytes =
      evaluate_tile<std::int8_t>(DType::I8, [](auto& k) { return k.iota(DType::I8, {300}, 0); });
  EXPECT_EQ(bytes[127], 127);
  EXPECT_EQ(bytes[128], -128);
  EXPECT_EQ(bytes[299], 43);
}

TEST(Interpreter, BitcastKeepsTheBits) {
  EXPECT_EQ(floats([](auto& k) { return k.bitcast(k.constant_integer(DType::I32, 0x3fc00000), DType::F32); }),
            (Floats{1.5f}));
  EXPECT_EQ(evaluate_tile<std::uint16_t>(
                DType::U16, [](auto& k) { return k.bitcast(k.full(DType::BF16, {2}, -2), DType::U16); }),
            (std::vector<std::uint16_t>{0xc000, 0xc000}));
}

TEST(Interpreter, Reductions) {
  const auto reduced = [](Combiner combiner, int axis) {
    return integers([&](auto& k) { return k.reduce(combiner, counting_tile(k) - 2, axis); });
  };
  // -2 -1 0 / 1 2 3
  EXPECT_EQ(reduced(Combiner::Sum, 0), (Integers{-1, 1, 3}));
  EXPECT_EQ(reduced(Combiner::Sum, 1), (Integers{-3, 6}));
  EXPECT_EQ(reduced(Combiner::Prod, 1), (Integers{0, 6}));
  EXPECT_EQ(reduced(Combiner::Min, -1), (Integers{-2, 1}));
  EXPECT_EQ(reduced(Combiner::Max, 0), (Integers{1, 2, 3}));
  EXPECT_EQ(reduced(Combiner::And, 1), (Integers{0, 0}));
  EXPECT_EQ(reduced(Combiner::Or, 0), (Integers{-1, -1, 3}));
  EXPECT_EQ(integers([](auto& k) { return k.reduce_all(Combiner::ArgMax, counting_tile(k), 1)[1]; }),
            (Integers{2, 2}));
  EXPECT_EQ(integers([](auto& k) { return k.reduce(Combiner::Sum, k.iota(DType::I64, {5}, 0), 0); }),
            (Integers{10}));
}

TEST(Interpreter, ArgmaxTakesTheFirstOfTiesAndTheFirstNan) {
  const auto position = [](Combiner combiner, const Floats& values, bool scan = false) {
    KernelBuilder k("arg");
    const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
    const View y = k.output("y", Type::view(DType::I64, {kDynamic}));
    const Expr tile = x.load({0}, {std::ssize(values)});
    y.store({0}, scan ? k.scan(combiner, tile, 0)[1] : k.reduce_all(combiner, tile, 0)[1]);
    Array<float> in({std::ssize(values)});
    in.data() = values;
    Array<std::int64_t> out({scan ? std::ssize(values) : 1});
    const Kernel kernel = k.finish();
    interpret(kernel, std::vector{in.argument(), out.argument()});
    return out.data();
  };
  EXPECT_EQ(position(Combiner::ArgMax, {1, 3, 3, 2}), (Integers{1}));
  EXPECT_EQ(position(Combiner::ArgMin, {1, 0.0f, -0.0f, 2}), (Integers{1}));
  EXPECT_EQ(position(Combiner::ArgMax, {1, NAN, INFINITY, NAN}), (Integers{1}));
  EXPECT_EQ(position(Combiner::ArgMin, {NAN, -INFINITY}), (Integers{0}));
  EXPECT_EQ(position(Combiner::ArgMax, {-INFINITY, -INFINITY}), (Integers{0}));
  EXPECT_EQ(position(Combiner::ArgMax, {1, 3, 2, 3, 4}, true), (Integers{0, 1, 1, 1, 4}));
}

TEST(Interpreter, Scans) {
  const auto scanned = [](Combiner combiner, bool exclusive, bool reverse) {
    return integers(
        [&](auto& k) { return k.scan(combiner, counting_tile(k) + 1, 1, exclusive, reverse)[0]; });
  };
  // 1 2 3 / 4 5 6
  EXPECT_EQ(scanned(Combiner::Sum, false, false), (Integers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(scanned(Combiner::Sum, true, false), (Integers{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(scanned(Combiner::Sum, false, true), (Integers{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(scanned(Combiner::Prod, true, true), (Integers{6, 3, 1, 30, 6, 1}));
  EXPECT_EQ(scanned(Combiner::Max, true, false), (Integers{INT64_MIN, 1, 2, INT64_MIN, 4, 5}));
  EXPECT_EQ(scanned(Combiner::And, true, false), (Integers{-1, 1, 0, -1, 4, 4}));
}

TEST(Interpreter, LogsumexpAndWelford) {
  const auto all = [](Combiner combiner, const Floats& values) {
    KernelBuilder k("all");
    const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
    const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
    const Exprs results = k.reduce_all(combiner, x.load({0}, {std::ssize(values)}), 0);
    for (std::size_t i = 0; i < results.size(); ++i) y.store({static_cast<std::int64_t>(i)}, results[i]);
    Array<float> in({std::ssize(values)}), out({std::ssize(results)});
    in.data() = values;
    const Kernel kernel = k.finish();
    interpret(kernel, std::vector{in.argument(), out.argument()});
    return out.data();
  };
  EXPECT_EQ(all(Combiner::LogSumExp, {2, 2, 2, 2}), (Floats{2, 4}));
  EXPECT_EQ(all(Combiner::LogSumExp, {-INFINITY, 3}), (Floats{3, 1}));
  EXPECT_EQ(all(Combiner::LogSumExp, {-INFINITY, -INFINITY}), (Floats{-INFINITY, 2}));
  EXPECT_NEAR(all(Combiner::LogSumExp, {1, 0, 2})[1], 1 + std::exp(-1.0) + std::exp(-2.0), 1e-6);
  EXPECT_TRUE(std::isnan(all(Combiner::LogSumExp, {1, NAN})[0]));
  EXPECT_EQ(all(Combiner::Welford, {1, 2, 3, 4, 5}), (Floats{5, 3, 10}));
  EXPECT_EQ(all(Combiner::Welford, {7}), (Floats{1, 7, 0}));
}

TEST(Interpreter, DotInEveryShape) {
  // 0 1 2 / 3 4 5 times its transpose
  EXPECT_EQ(floats([](auto& k) {
              const Expr a = counting_tile(k, DType::F32);
              return k.dot(k.full(DType::F32, {2, 2}, 100), a, k.transpose(a, {1, 0}));
            }),
            (Floats{105, 114, 114, 150}));
  // depth 1, dropped from both
  EXPECT_EQ(floats([](auto& k) {
              const Expr a = k.reshape(counting_tile(k, DType::F32), {6, 1});
              return k.dot(k.zeros(DType::F32, {6, 2}), a, k.full(DType::F32, {1, 2}, 2));
            }),
            (Floats{0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10}));
  // two batches of a row by a column
  EXPECT_EQ(floats([](auto& k) {
              const Expr a = counting_tile(k, DType::F32);
              return k.dot(k.zeros(DType::F32, {2, 1, 1}), k.reshape(a, {2, 1, 3}), k.reshape(a, {2, 3, 1}),
                           1);
            }),
            (Floats{5, 50}));
  EXPECT_EQ(evaluate_tile<std::int32_t>(DType::I32,
                                        [](auto& k) {
                                          const Expr a = k.full(DType::U8, {1, 4}, 255);
                                          const Expr b = k.full(DType::I8, {4, 1}, -128);
                                          return k.dot(k.zeros(DType::I32, {1, 1}), a, b);
                                        }),
            (std::vector<std::int32_t>{4 * 255 * -128}));
  EXPECT_EQ(floats([](auto& k) {
              const Expr a = k.full(DType::F16, {1, 1000}, 3);
              return k.dot(k.zeros(DType::F32, {1, 1}), a, k.full(DType::F16, {1000, 1}, 3));
            }),
            (Floats{9000}));
}

TEST(Interpreter, LoopsAndBranches) {
  EXPECT_EQ(integers([](auto& k) {
              return k.loop(2, 11, 4, {k.index(0), k.index(1)}, [&](Expr i, const Exprs& carried) -> Exprs {
                return {carried[0] + i, carried[1] * 2};
              })[0];
            }),
            (Integers{2 + 6 + 10}));
  EXPECT_EQ(integers([](auto& k) {
              return k.loop(5, 5, 1, {k.index(7)},
                            [&](Expr, const Exprs&) -> Exprs { return {k.index(0)}; })[0];
            }),
            (Integers{7}));
  for (const std::int64_t condition : {0, 1}) {
    EXPECT_EQ(integers([&](auto& k) {
                return k.branch(
                    eq(k.index(condition), 1), [&] { return Exprs{k.index(10)}; },
                    [&] { return Exprs{k.index(20)}; })[0];
              }),
              (Integers{condition == 1 ? 10 : 20}));
  }
  // 2 x 3 blocks, the last index fastest; a block that reaches beyond its extent counts whole.
  EXPECT_EQ(integers([](auto& k) {
              return k.contract({3, 5}, {2, 2}, {k.index(0)},
                                [&](const Exprs& at, const Exprs& carried) -> Exprs {
                                  return {carried[0] + at[0] * 10 + at[1] + 100};
                                })[0];
            }),
            (Integers{600 + 3 * 20 + 2 * (0 + 2 + 4)}));
}

// --- views

// What a view of x (4 x 5, counting) shows in a box at (0, 0).
Floats seen(std::int64_t rows, std::int64_t columns, const std::function<View(View)>& derive,
            double fill = -1, std::int64_t row = 0, std::int64_t column = 0) {
  KernelBuilder k("seen");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic, kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic}));
  y.store({0, 0}, derive(x).load({row, column}, {rows, columns}, fill));
  Array<float> in = counting<float>({4, 5}), out({rows, columns});
  const Kernel kernel = k.finish();
  interpret(kernel, std::vector{in.argument(), out.argument()});
  return out.data();
}

TEST(InterpreterViews, MapIndices) {
  EXPECT_EQ(seen(2, 2, [](View x) { return x; }, -1, 3, 4), (Floats{19, -1, -1, -1}));
  EXPECT_EQ(seen(1, 2, [](View x) { return x; }, 8, -1, 0), (Floats{8, 8}));
  EXPECT_EQ(seen(2, 3, [](View x) { return x.slice({1, 4}, {2, 3}, {1, -2}); }),
            (Floats{9, 7, 5, 14, 12, 10}));
  EXPECT_EQ(seen(5, 1, [](View x) { return x.transpose({1, 0}); }, -1, 0, 2), (Floats{10, 11, 12, 13, 14}));
  EXPECT_EQ(seen(
                2, 3, [](View x) { return x.merge({0, 1}).split(0, {7, 3}); }, -1, 5, 0),
            (Floats{15, 16, 17, 18, 19, -1}));
  EXPECT_EQ(seen(
                1, 6, [](View x) { return x.pad({0, 3}, {0, 3}, PadMode::Edge); }, -1, 1, -1),
            (Floats{-1, 5, 5, 5, 5, 6}));
  EXPECT_EQ(seen(1, 9, [](View x) { return x.pad({0, 2}, {0, 2}, PadMode::Reflect); }),
            (Floats{2, 1, 0, 1, 2, 3, 4, 3, 2}));
  EXPECT_EQ(seen(1, 9, [](View x) { return x.pad({0, 2}, {0, 2}, PadMode::Wrap); }),
            (Floats{3, 4, 0, 1, 2, 3, 4, 0, 1}));
  EXPECT_EQ(seen(
                2, 3, [](View x) { return x.pad({-1, 0}, {-2, 1}, PadMode::Constant, 9); }, -1, 0, 3),
            (Floats{8, 9, 9, -1, -1, -1}));
  EXPECT_EQ(seen(
                3, 2, [](View x) { return x.concat(x.slice({2, 0}, {1, 5}), 0); }, -1, 3, 3),
            (Floats{18, 19, 13, 14, -1, -1}));
}

TEST(InterpreterViews, AnElementThatIsNotLiveHasTheValueOfTheLevelItLeft) {
  // The slice reaches beyond x: no level with a value was passed.
  EXPECT_EQ(seen(1, 3, [](View x) { return x.slice({3, 3}, {1, 4}); }), (Floats{18, 19, -1}));
  // Outside the padded view the fill counts, in its border the pad's value, even where x would have an
  // element.
  EXPECT_EQ(
      seen(1, 5, [](View x) { return x.slice({1, 1}, {1, 2}).pad({0, 1}, {0, 1}, PadMode::Constant, 50); }),
      (Floats{50, 6, 7, 50, -1}));
  // Through the pad and out of x: the last value passed on the way is the pad's.
  EXPECT_EQ(
      seen(1, 6, [](View x) { return x.slice({3, 3}, {1, 4}).pad({0, 1}, {0, 1}, PadMode::Constant, 50); }),
      (Floats{50, 18, 19, 50, 50, 50}));
  // Of two pads the inner one is passed last.
  EXPECT_EQ(seen(1, 7,
                 [](View x) {
                   return x.slice({0, 0}, {1, 2})
                       .pad({0, 1}, {0, 1}, PadMode::Constant, 50)
                       .pad({0, 1}, {0, 2}, PadMode::Constant, 60);
                 }),
            (Floats{60, 50, 0, 1, 50, 60, 60}));
  EXPECT_EQ(seen(1, 3, [](View x) { return x.slice({0, 0}, {1, 0}).pad({0, 1}, {0, 1}, PadMode::Edge); }),
            (Floats{-1, -1, -1}));  // nothing to repeat
}

TEST(InterpreterViews, Windows) {
  KernelBuilder k("window");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic}));
  const View window = x.window(
      {.axes = {0}, .kernel = {3}, .strides = {2}, .dilations = {2}, .low = {3}, .high = {1}, .value = 9});
  y.store({0, 0}, window.load({0, 0}, {4, 4}, -1));
  const Kernel kernel = k.finish();
  Array<float> in = counting<float>({5}), out({4, 4});
  interpret(kernel, std::vector{in.argument(), out.argument()});
  // (5 + 4 - 5) / 2 + 1 = 3 outputs of 3 taps: 2 o + 2 k - 3
  EXPECT_EQ(out.data(), (Floats{9, 9, 1, -1, 9, 1, 3, -1, 1, 3, 9, -1, -1, -1, -1, -1}));
}

TEST(InterpreterViews, GatherScatterAndBroadcast) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%x: view<?x?xf32>, %i: view<?x?xi32>, %y: out view<?x?x?xf32>, %z: inout view<?xf32>, %n: out view<?x?xi64>) grid [1] {
      %g = gather %x axis 0 indices %i
      store %y[0, 0, 0], load %g[0, 0, 0] fill = -1.0 : tile<2x3x2xf32>
      %s = gather %z axis 0 indices %i
      atomic_add %s[0, 0], (const 1.0 : tile<4x4xf32>)
      %b = broadcast_view %i axes [1] extents [3]
      store %n[0, 0], cast (load %b[1, 2, 1] : i32) to i64
      store %n[0, 1], dim %b, 1
    })");
  Array<float> x = counting<float>({3, 2}), y({2, 3, 2}), z({3});
  Array<std::int32_t> indices({2, 2});
  indices.data() = {2, -1, 0, 2};
  Array<std::int64_t> n({1, 2});
  interpret(kernel, std::vector{x.argument(), indices.argument(), y.argument(), z.argument(), n.argument()});
  EXPECT_EQ(y.data(), (Floats{4, 5, 4, 5, -1, -1, 0, 1, 4, 5, -1, -1}));
  EXPECT_EQ(z.data(), (Floats{1, 0, 3}));
  EXPECT_EQ(n.data(), (Integers{2, 3}));
}

TEST(InterpreterViews, StoresDropWhatIsNotLive) {
  KernelBuilder k("drop");
  const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic}));
  y.slice({1, 4}, {2, 3}, {1, -2})
      .store({1, -1}, k.reshape(k.cast(k.iota(DType::I64, {8}, 0), DType::F32), {2, 4}));
  Array<float> out({4, 5});
  for (float& value : out.data()) value = -9;
  const Kernel kernel = k.finish();
  interpret(kernel, std::vector{out.argument()});
  EXPECT_EQ(out(2, 4), 1);
  EXPECT_EQ(out(2, 2), 2);
  EXPECT_EQ(out(2, 0), 3);
  out(2, 4) = out(2, 2) = out(2, 0) = -9;
  EXPECT_EQ(out.data(), Floats(20, -9));
}

TEST(InterpreterViews, BooleansInMemoryAreBytes) {
  KernelBuilder k("booleans");
  const View x = k.input("x", Type::view(DType::I1, {3})), y = k.output("y", Type::view(DType::I1, {3}));
  y.store({0}, ~x.load({0}, {3}));
  Array<std::uint8_t> in({3}), out({3});
  in.data() = {0, 1, 2};
  const Kernel kernel = k.finish();
  interpret(kernel, std::vector{in.argument(), out.argument()});
  EXPECT_EQ(out.data(), (std::vector<std::uint8_t>{1, 0, 0}));
}

// --- errors

template <typename Run>
Error error_of_run(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Bug, ErrorCode::Internal, "no error"};
}

TEST(InterpreterErrors, NameTheProgramInstance) {
  const Kernel kernel = parse_one(R"(
    kernel @divide(%x: view<?x?xi32>, %y: out view<?x?xi32>) grid [dim(%x, 0), dim(%x, 1)] {
      %i = program_id 0
      %j = program_id 1
      store %y[%i, %j], 12 / (load %x[%i, %j] : i32)
    })");
  Array<std::int32_t> x({2, 3}), y({2, 3});
  x.data() = {1, 2, 3, 4, 0, 6};
  const Error error = error_of_run([&] { interpret(kernel, std::vector{x.argument(), y.argument()}); });
  EXPECT_EQ(error.code(), ErrorCode::DivisionByZero);
  EXPECT_EQ(error.context(), (Error::Context{{"program", "(1, 1)"}, {"kernel", "divide"}}));
  EXPECT_EQ(y.data(), (std::vector<std::int32_t>{12, 6, 4, 3, 0, 0}));  // what was stored stays
}

TEST(InterpreterErrors, ALocalHasALimit) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%n: i64) grid [1] {
      local %s : view<2x?xf32> [%n] max 10
      store %s[0, 0], (const 1.0 : tile<2x5xf32>)
    })");
  interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, 5)});
  EXPECT_EQ(
      error_of_run([&] { interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, 6)}); }).code(),
      ErrorCode::LimitExceeded);
  EXPECT_EQ(error_of_run([&] {
              interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, -1)});
            }).kind(),
            ErrorKind::Caller);
  EXPECT_EQ(error_of_run([&] {
              interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, INT64_MAX)});
            }).code(),
            ErrorCode::LimitExceeded);
}

TEST(InterpreterErrors, AKernelOfManyHugeTilesIsRefused) {
  std::string body;
  for (int i = 0; i < 9; ++i) {
    body += fmt::format("%t{} = const {}.0 : tile<4096x4096xf64>\n", i, i);
  }
  const Kernel kernel = parse_one("kernel @k() grid [1] {\n" + body + "}");
  EXPECT_EQ(error_of_run([&] { interpret(kernel, std::vector<Argument>{}); }).code(),
            ErrorCode::LimitExceeded);
}

TEST(InterpreterErrors, ArgumentsMustFit) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%x: view<?x4xf32, strides = [?, 1], align = 16>, %n: i64) grid [1] { })");
  alignas(64) float memory[64] = {};
  const auto run = [&](ViewArgument view, Argument n = Literal::integer(DType::I64, 1)) {
    return error_of_run([&] { interpret(kernel, std::vector<Argument>{std::move(view), n}); }).code();
  };
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  EXPECT_EQ(run({bytes, 4, {2, 4}, {7, 1}}), ErrorCode::Internal);  // "no error"
  EXPECT_EQ(run({bytes, 4, {2, 5}, {7, 1}}), ErrorCode::TypeMismatch);
  EXPECT_EQ(run({bytes, 4, {2, 4}, {7, 2}}), ErrorCode::TypeMismatch);
  EXPECT_EQ(run({bytes, 4, {-2, 4}, {7, 1}}), ErrorCode::TypeMismatch);
  EXPECT_EQ(run({bytes, 4, {4}, {1}}), ErrorCode::TypeMismatch);
  EXPECT_EQ(run({bytes, 2, {2, 4}, {7, 1}}), ErrorCode::TypeMismatch);  // alignment
  EXPECT_EQ(run({bytes, 0, {2, 4}, {7, 1}}, Literal::integer(DType::I32, 1)), ErrorCode::TypeMismatch);
  EXPECT_EQ(error_of_run([&] { interpret(kernel, std::vector<Argument>{}); }).code(),
            ErrorCode::TypeMismatch);
}

TEST(InterpreterErrors, ExtentsThatAreTakenForEqualMustBe) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%x: view<?x4xf32>, %y: out view<4x?xf32>) assume %y[1] = %x[0] grid [1] { })");
  float memory[64] = {};
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  const auto run = [&](std::int64_t first, std::int64_t second) {
    const std::vector<Argument> arguments = {ViewArgument{bytes, 0, {first, 4}, {4, 1}},
                                             ViewArgument{bytes, 0, {4, second}, {second, 1}}};
    return error_of_run([&] { interpret(kernel, arguments); });
  };
  EXPECT_EQ(run(5, 5).code(), ErrorCode::Internal);  // "no error"
  const Error error = run(5, 6);
  EXPECT_EQ(error.code(), ErrorCode::ShapeMismatch);
  EXPECT_NE(std::string(error.what()).find("argument x has extent 5 along axis 0, expected 6 as argument y"),
            std::string::npos)
      << error.what();
}

TEST(InterpreterErrors, NothingOutsideTheBytesIsTouched) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%y: out view<?xf32>) grid [1] { store %y[0], (const 1.0 : tile<8xf32>) })");
  std::vector<float> memory(6, 0);
  const std::vector<Argument> arguments = {
      ViewArgument{std::as_writable_bytes(std::span(memory)), 2, {5}, {1}}};
  EXPECT_EQ(error_of_run([&] { interpret(kernel, arguments); }).kind(), ErrorKind::Bug);
}

TEST(Interpreter, AssertsAndPrints) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%n: i64) grid [2] {
      print (%n + program_id 0), "n is"
      assert lt(%n, 5), "n is small"
    })");
  std::string printed;
  const auto print = [&](std::string_view line) { printed += std::string(line) + "\n"; };
  interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, 3)}, print);
  EXPECT_EQ(printed, "n is 3\nn is 4\n");
  const Error error =
      error_of_run([&] { interpret(kernel, std::vector<Argument>{Literal::integer(DType::I64, 7)}); });
  EXPECT_NE(std::string(error.what()).find("n is small"), std::string::npos);
}

TEST(Interpreter, GridsComeFromTheArguments) {
  const Kernel kernel = parse_one(R"(
    kernel @k(%x: inout view<?x?xf32>) grid [ceildiv(dim(%x, 0), 4), dim(%x, 1) - 3] {
      atomic_add %x[program_id 0, program_id 1], cast (num_programs 0 * 10 + num_programs 1) to f32
    })");
  Array<float> x({5, 5});
  EXPECT_EQ(grid_extents(kernel, std::vector{x.argument()}), (std::vector<std::int64_t>{2, 2}));
  interpret(kernel, std::vector{x.argument()});
  EXPECT_EQ(x(1, 1), 22);
  EXPECT_EQ(std::accumulate(x.data().begin(), x.data().end(), 0.0f), 88);
  Array<float> empty({5, 2});
  EXPECT_EQ(grid_extents(kernel, std::vector{empty.argument()}), (std::vector<std::int64_t>{2, 0}));
  interpret(kernel, std::vector{empty.argument()});
  EXPECT_EQ(empty.data(), Floats(10, 0));
}

}  // namespace
}  // namespace kiln::tile
