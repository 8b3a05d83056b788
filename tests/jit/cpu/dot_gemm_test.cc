// Matrix products: every edge of the block, both ISA levels, packed and plain operands, all dtypes.
#include "tests/jit/cpu/dot_testing.h"

namespace kiln {
namespace {

using namespace dot_testing;
using tile::Expr;
using tile::Exprs;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Schedule;
using tile::Type;
using tile::View;

struct Gemm {
  std::int64_t rows = 12, columns = 64, block = 16;  // the block of a program instance, and of k
  DType operand = DType::F32, accumulator = DType::F32;
  DType b_operand = DType::F32;
  bool transpose_a = false, transpose_b = false;

  Kernel build() const {
    KernelBuilder k("gemm");
    View a = k.input("a", Type::view(operand, {kDynamic, kDynamic}));
    View b = k.input("b", Type::view(b_operand, {kDynamic, kDynamic}));
    const View c = k.output("c", Type::view(accumulator, {kDynamic, kDynamic}));
    k.grid([&] { return Indices{ceil_divide(c.dim(0), rows), ceil_divide(c.dim(1), columns)}; });
    if (transpose_a) a = a.transpose({1, 0});
    if (transpose_b) b = b.transpose({1, 0});
    const Expr i = k.program_id(0) * static_cast<double>(rows);
    const Expr j = k.program_id(1) * static_cast<double>(columns);
    const Exprs sum = k.contract(
        {a.dim(1)}, {block}, {k.zeros(accumulator, {rows, columns})},
        [&](const Exprs& at, const Exprs& carried) -> Exprs {
          return {k.dot(carried[0], a.load({i, at[0]}, {rows, block}), b.load({at[0], j}, {block, columns}))};
        });
    c.store({i, j}, sum[0]);
    return k.finish();
  }

  static Expr ceil_divide(Expr value, std::int64_t by) {
    return (value + static_cast<double>(by - 1)) / static_cast<double>(by);
  }

  void check(std::int64_t m, std::int64_t n, std::int64_t depth, const Schedule& schedule = {}) const {
    const Kernel kernel = build();
    for (const Isa isa : isas()) {
      SCOPED_TRACE(fmt::format("{}x{}x{} {} block {}x{}x{} {}", m, n, depth, name(isa), rows, columns, block,
                               name(operand)));
      Array a = Array::random(operand, transpose_a ? std::vector{depth, m} : std::vector{m, depth}, 1);
      Array b = Array::random(b_operand, transpose_b ? std::vector{n, depth} : std::vector{depth, n}, 2);
      Array c(accumulator, {m, n});
      run_compiled(kernel, schedule, isa, {&a, &b, &c});
      expect_near(c, expected(a, b, m, n, depth), depth);
    }
  }

  Expected expected(const Array& a, const Array& b, std::int64_t m, std::int64_t n,
                    std::int64_t depth) const {
    Expected want(m * n);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t k = 0; k < depth; ++k) {
          want.add(i * n + j, a.at(transpose_a ? k * m + i : i * depth + k),
                   b.at(transpose_b ? j * depth + k : k * n + j));
        }
      }
    }
    return want;
  }
};

TEST(DotGemm, EdgesOfRowsAndColumns) {
  Gemm gemm;
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 11, 12, 13, 29}) gemm.check(m, 64, 16);
  for (const std::int64_t n : {1, 7, 8, 15, 16, 17, 31, 63, 65, 97, 128}) gemm.check(7, n, 16);
}

TEST(DotGemm, EdgesOfTheContractedAxis) {
  Gemm gemm;
  for (const std::int64_t k : {0, 1, 2, 15, 16, 17, 31, 97}) gemm.check(13, 70, k);
}

TEST(DotGemm, BlockShapes) {
  for (const std::int64_t rows : {1, 2, 4, 8, 96}) {
    for (const std::int64_t columns : {1, 8, 16, 24, 48, 80, 128}) {
      Gemm gemm;
      gemm.rows = rows;
      gemm.columns = columns;
      gemm.block = 33;
      gemm.check(101, 130, 37);
    }
  }
}

TEST(DotGemm, Schedules) {
  Gemm gemm;
  gemm.rows = 24;
  gemm.columns = 128;
  gemm.block = 64;
  for (const bool pack_a : {false, true}) {
    for (const bool pack_b : {false, true}) {
      for (const std::int64_t contract_block : {0, 7, 64}) {
        for (const int unroll : {1, 2}) {
          Schedule schedule;
          schedule.pack_a = pack_a;
          schedule.pack_b = pack_b;
          schedule.contract_block = contract_block;
          schedule.contract_unroll = unroll;
          gemm.check(31, 150, 129, schedule);
        }
      }
    }
  }
  for (const auto& [rows, vectors] : {std::pair{1, 1}, {3, 2}, {4, 2}, {5, 1}}) {
    Schedule schedule;
    schedule.register_rows = rows;
    schedule.register_vectors = vectors;
    gemm.check(31, 150, 129, schedule);
  }
}

TEST(DotGemm, TransposedOperands) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      Gemm gemm;
      gemm.transpose_a = transpose_a;
      gemm.transpose_b = transpose_b;
      gemm.check(13, 70, 37);
      gemm.check(12, 64, 32);
      // Row blocks that follow one another share what was made of B.
      Schedule schedule;
      schedule.grid_order = {1, 0};
      gemm.check(40, 150, 37, schedule);
    }
  }
}

TEST(DotGemm, Dtypes) {
  struct Types {
    DType a, b, accumulator;
  };
  for (const Types& types : std::vector<Types>{{DType::F64, DType::F64, DType::F64},
                                               {DType::F32, DType::F32, DType::F64},
                                               {DType::F16, DType::F16, DType::F32},
                                               {DType::BF16, DType::BF16, DType::F32},
                                               {DType::F16, DType::F16, DType::F64},
                                               {DType::I8, DType::I8, DType::I32},
                                               {DType::U8, DType::I8, DType::I32},
                                               {DType::I8, DType::U8, DType::I32},
                                               {DType::U8, DType::U8, DType::I32},
                                               {DType::I32, DType::I32, DType::I32},
                                               {DType::I64, DType::I64, DType::I64}}) {
    Gemm gemm;
    gemm.operand = types.a;
    gemm.b_operand = types.b;
    gemm.accumulator = types.accumulator;
    gemm.check(13, 70, 37);
    gemm.check(12, 64, 32);
  }
}

// A NaN or an infinity reaches its own row or column alone, also from a block's edge.
TEST(DotGemm, NonFiniteValuesStayInTheirRowOrColumn) {
  const Gemm gemm;
  const Kernel kernel = gemm.build();
  const std::int64_t m = 13, n = 70, depth = 17;
  for (const Isa isa : isas()) {
    Array a = Array::random(DType::F32, {m, depth}, 1), b = Array::random(DType::F32, {depth, n}, 2);
    a.set(12 * depth + 16, NAN);
    a.set(3 * depth + 0, INFINITY);
    b.set(16 * n + 69, NAN);
    b.set(0 * n + 5, -INFINITY);
    Array c(DType::F32, {m, n});
    run_compiled(kernel, {}, isa, {&a, &b, &c});
    expect_near(c, gemm.expected(a, b, m, n, depth), depth);
  }
}

TEST(DotGemm, EqualsTheInterpreterOnWholeNumbers) {
  Gemm gemm;
  gemm.block = 8;
  const Kernel kernel = gemm.build();
  for (const Isa isa : isas()) {
    Array a(DType::F32, {14, 19}), b(DType::F32, {19, 66}), got(DType::F32, {14, 66}),
        want(DType::F32, {14, 66});
    for (std::int64_t i = 0; i < a.elements(); ++i) a.set(i, static_cast<double>(i % 13 - 6));
    for (std::int64_t i = 0; i < b.elements(); ++i) b.set(i, static_cast<double>(i % 11 - 5));
    run_compiled(kernel, {}, isa, {&a, &b, &got});
    run_interpreted(kernel, {&a, &b, &want});
    for (std::int64_t i = 0; i < got.elements(); ++i) ASSERT_EQ(got.at(i), want.at(i)) << i;
  }
}

}  // namespace
}  // namespace kiln
