// Reductions and scans of every combiner, shape and dtype, against the interpreter; where the order of
// evaluation matters, against exact bounds of it.
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/ranges.h>

#include "ir/tile/builder.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_tile_program.h"

namespace kiln::jit {
namespace {

using tile::Combiner;
using tile::Expr;
using tile::Exprs;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Literal;
using tile::RandomProgram;
using tile::Type;
using tile::View;

RandomProgram::Buffer buffer(DType dtype, std::vector<std::int64_t> extents, bool output) {
  RandomProgram::Buffer result;
  result.dtype = dtype;
  result.strides.resize(extents.size());
  std::int64_t elements = 1;
  for (std::size_t k = extents.size(); k-- > 0;) {
    result.strides[k] = elements;
    elements *= extents[k];
  }
  result.extents = std::move(extents);
  result.bytes.resize(static_cast<std::size_t>(byte_size(dtype, elements)));
  result.is_output = output;
  return result;
}

double element(const RandomProgram::Buffer& source, std::size_t index) {
  const auto width = static_cast<std::size_t>(bits(source.dtype) / 8);
  Literal literal{source.dtype, 0};
  std::memcpy(&literal.bits, source.bytes.data() + index * width, width);
  return is_float(source.dtype) ? literal.as_number() : static_cast<double>(literal.as_integer());
}

// Small integers, so that sums and products of floats are exact and must agree to the bit.
void fill(RandomProgram::Buffer& target, std::mt19937& random, bool exact) {
  const auto width = static_cast<std::size_t>(bits(target.dtype) / 8);
  for (std::size_t i = 0; i < target.bytes.size() / width; ++i) {
    const int small = static_cast<int>(random() % 7) - 3;
    const double value = exact ? small : std::normal_distribution<double>()(random);
    const std::uint64_t pattern =
        target.dtype == DType::I1 ? random() % 2
        : is_float(target.dtype)
            ? Literal::number(target.dtype, value).bits
            : Literal::integer(target.dtype, is_unsigned_integer(target.dtype) ? std::abs(small) : small)
                  .bits;
    std::memcpy(target.bytes.data() + i * width, &pattern, width);
  }
}

struct Shape {
  std::vector<std::int64_t> tile;
  int axis;
};

// out_k = combiner's result k of a tile that may reach beyond x.
Kernel reduction(Combiner combiner, DType dtype, const Shape& shape, bool scan, bool exclusive,
                 bool reverse) {
  KernelBuilder k("reduction");
  const std::vector<std::int64_t> unknown(shape.tile.size(), kDynamic);
  const View x = k.input("x", Type::view(dtype, unknown));
  k.grid([&]() -> Indices { return {1}; });
  const Indices origin(shape.tile.size(), 0);
  const Expr tile = x.load(origin, shape.tile, 1);
  const Exprs results = scan ? k.scan(combiner, tile, shape.axis, exclusive, reverse)
                             : k.reduce_all(combiner, tile, shape.axis);
  for (std::size_t i = 0; i < results.size(); ++i) {
    Expr result = results[i];
    std::vector<std::int64_t> extents = result.type().extents;
    if (extents.empty()) {
      extents = {1};
      result = k.reshape(result, {1});
    }
    const View y = k.output("y" + std::to_string(i), Type::view(result.type().element, extents));
    y.store(Indices(extents.size(), 0), result);
  }
  return k.finish();
}

void check(Combiner combiner, DType dtype, const Shape& shape, std::int64_t short_by, bool exact,
           bool scan = false, bool exclusive = false, bool reverse = false) {
  const Kernel kernel = reduction(combiner, dtype, shape, scan, exclusive, reverse);
  std::mt19937 random(5);
  std::vector<std::int64_t> extents = shape.tile;
  extents.back() = std::max<std::int64_t>(0, extents.back() - short_by);
  std::vector<RandomProgram::Buffer> buffers{buffer(dtype, extents, false)};
  fill(buffers[0], random, exact);
  for (std::size_t k = 1; k < kernel.parameters.size(); ++k) {
    const Type& type = kernel.type(kernel.parameters[k].value);
    buffers.push_back(buffer(type.element, type.extents, true));
  }
  std::vector<RandomProgram::Buffer> expected = buffers;
  tile::interpret(kernel, RandomProgram::arguments(expected));
  for (const Isa isa : runnable_isas()) {
    std::vector<RandomProgram::Buffer> got = buffers;
    EXPECT_EQ(compile_and_run(kernel, target_for_isa(isa), RandomProgram::arguments(got)).code, 0);
    const std::string label =
        fmt::format("{} of {} over axis {} of {}, short by {}, on {}", tile::name(combiner), name(dtype),
                    shape.axis, fmt::join(shape.tile, "x"), short_by, name(isa));
    for (std::size_t k = 1; k < got.size(); ++k) {
      const std::size_t count = got[k].bytes.size() / static_cast<std::size_t>(bits(got[k].dtype) / 8);
      for (std::size_t i = 0; i < count; ++i) {
        const double want = element(expected[k], i), have = element(got[k], i);
        const double tolerance = exact ? 0 : 1e-5 * (std::fabs(want) + 1);
        ASSERT_TRUE(std::fabs(want - have) <= tolerance || (std::isnan(want) && std::isnan(have)))
            << label << ": result " << k - 1 << " element " << i << " is " << have << ", expected " << want;
      }
    }
  }
}

const std::vector<Shape> kShapes = {{{1}, 0},         {{5}, 0},     {{64}, 0},    {{200}, 0},
                                    {{3, 40}, 1},     {{40, 3}, 0}, {{7, 33}, 0}, {{4, 9, 20}, 1},
                                    {{2, 3, 100}, 2}, {{50, 16}, 0}};

TEST(Reduce, ExactCombinersAgreeToTheBit) {
  for (const Combiner combiner :
       {Combiner::Sum, Combiner::Min, Combiner::Max, Combiner::ArgMax, Combiner::ArgMin}) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I32, DType::U8, DType::I64}) {
      for (const Shape& shape : kShapes) {
        if (dtype != DType::F32 && shape.tile.size() == 1 && shape.tile[0] < 64) continue;
        for (const std::int64_t short_by : {0, 2, 1000}) {
          if (dtype != DType::F32 && short_by != 2) continue;
          check(combiner, dtype, shape, short_by, true);
        }
      }
    }
  }
}

TEST(Reduce, LogicAndProducts) {
  for (const Shape& shape : kShapes) {
    for (const Combiner combiner : {Combiner::And, Combiner::Or}) {
      check(combiner, DType::I1, shape, 2, true);
      check(combiner, DType::I32, shape, 2, true);
    }
    check(Combiner::Prod, DType::I32, shape, 2, true);
    check(Combiner::Prod, DType::F32, shape, 2, false);
  }
}

TEST(Reduce, OrderedCombinersAgreeClosely) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {DType::F32, DType::F64}) {
      check(Combiner::Sum, dtype, shape, 0, false);
      check(Combiner::LogSumExp, dtype, shape, 2, false);
      check(Combiner::Welford, dtype, shape, 2, false);
    }
  }
}

TEST(Scan, EveryDirection) {
  for (const Shape& shape : kShapes) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        check(Combiner::Sum, DType::F32, shape, 2, true, true, exclusive, reverse);
        check(Combiner::Max, DType::I32, shape, 2, true, true, exclusive, reverse);
        if (!exclusive) check(Combiner::ArgMax, DType::F32, shape, 2, true, true, exclusive, reverse);
      }
    }
  }
}

TEST(Scan, OfLogSumExpIsRefused) {
  const Kernel kernel = reduction(Combiner::LogSumExp, DType::F32, {{64}, 0}, true, false, false);
  const auto artifact = compile(kernel, {}, target_for_isa(Isa::X86_64_V3), "kernel");
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), ErrorCode::Unsupported);
}

// A row of -inf, of NaN, of zeros of both signs.
TEST(Reduce, SpecialValues) {
  const Kernel kernel = reduction(Combiner::Max, DType::F32, {{3, 40}, 1}, false, false, false);
  std::vector<RandomProgram::Buffer> buffers{buffer(DType::F32, {3, 40}, false),
                                             buffer(DType::F32, {3}, true)};
  auto* x = reinterpret_cast<float*>(buffers[0].bytes.data());
  for (int i = 0; i < 40; ++i) {
    x[i] = -INFINITY;
    x[40 + i] = i == 17 ? NAN : 1.0f;
    x[80 + i] = i == 3 ? 0.0f : -0.0f;
  }
  std::vector<RandomProgram::Buffer> expected = buffers;
  tile::interpret(kernel, RandomProgram::arguments(expected));
  for (const Isa isa : runnable_isas()) {
    std::vector<RandomProgram::Buffer> got = buffers;
    compile_and_run(kernel, target_for_isa(isa), RandomProgram::arguments(got));
    EXPECT_EQ(tile::difference(expected, got), "") << name(isa);
  }
}

}  // namespace
}  // namespace kiln::jit
