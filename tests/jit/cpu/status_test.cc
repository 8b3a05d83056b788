// What a compiled kernel reports at run time, and what the compiler refuses.
#include <cstring>

#include "ir/tile/builder.h"
#include "tests/support/kernel_runner.h"

namespace kiln::jit {
namespace {

using tile::Argument;
using tile::Expr;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Type;
using tile::View;
using tile::ViewArgument;

template <typename T>
Argument vector_of(std::vector<T>& data) {
  return ViewArgument{
      std::as_writable_bytes(std::span(data)), 0, {static_cast<std::int64_t>(data.size())}, {1}};
}

// y[i] = table[indices[i]], 16 elements to a program
Kernel lookup() {
  KernelBuilder k("lookup");
  const View table = k.input("table", Type::view(DType::F32, {kDynamic}));
  const View indices = k.input("indices", Type::view(DType::I64, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(y.dim(0), 16)}; });
  const Expr i = k.program_id(0) * 16;
  y.store({i}, table.gather(0, indices).load({i}, {16}));
  return k.finish();
}

TEST(Status, AnIndexOutOfRangeIsReportedOnceAndReadsNothing) {
  for (const Isa isa : runnable_isas()) {
    for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-5}, INT64_MAX, INT64_MIN}) {
      std::vector<float> table{10, 11, 12, 13}, y(40, -1);
      std::vector<std::int64_t> indices(40, -1);  // the last entry
      indices[37] = wrong;
      const KernelStatus status =
          compile_and_run(lookup(), target_for_isa(isa),
                          std::vector<Argument>{vector_of(table), vector_of(indices), vector_of(y)});
      EXPECT_EQ(status.code, static_cast<std::int32_t>(StatusCode::IndexOutOfRange))
          << name(isa) << " " << wrong;
      EXPECT_EQ(status.program[0], 2);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i != 37) {
          EXPECT_EQ(y[i], 13) << i;
        }
      }
    }
  }
}

TEST(Status, IndicesOfDeadElementsDoNotMatter) {
  for (const Isa isa : runnable_isas()) {
    std::vector<float> table, y;  // nothing to read, nothing to write
    std::vector<std::int64_t> indices;
    EXPECT_EQ(compile_and_run(lookup(), target_for_isa(isa),
                              std::vector<Argument>{vector_of(table), vector_of(indices), vector_of(y)})
                  .code,
              0);
  }
}

TEST(Status, DivisionByZeroIsReportedAndTheMinimumWraps) {
  KernelBuilder k("divide");
  const View a = k.input("a", Type::view(DType::I32, {kDynamic}));
  const View b = k.input("b", Type::view(DType::I32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::I32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(y.dim(0), 16)}; });
  const Expr i = k.program_id(0) * 16;
  y.store({i}, a.load({i}, {16}) / b.load({i}, {16}, 1));
  const Kernel kernel = k.finish();
  for (const Isa isa : runnable_isas()) {
    std::vector<std::int32_t> x(21, INT32_MIN), divisor(21, -1), quotient(21);
    const std::vector<Argument> arguments{vector_of(x), vector_of(divisor), vector_of(quotient)};
    EXPECT_EQ(compile_and_run(kernel, target_for_isa(isa), arguments).code, 0);
    EXPECT_EQ(quotient, std::vector<std::int32_t>(21, INT32_MIN));
    divisor[20] = 0;
    const KernelStatus status = compile_and_run(kernel, target_for_isa(isa), arguments);
    EXPECT_EQ(status.code, static_cast<std::int32_t>(StatusCode::DivisionByZero));
    EXPECT_EQ(status.program[0], 1);
  }
}

TEST(Status, ALocalBeyondItsMaximumIsReportedAndWritesNothing) {
  KernelBuilder k("too_large");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {1}; });
  const View row = k.local(DType::F32, {x.dim(0)}, 64);
  row.store({0}, x.load({0}, {128}));
  y.store({0}, row.load({0}, {128}));
  const Kernel kernel = k.finish();
  for (const Isa isa : runnable_isas()) {
    for (const std::size_t size : {0u, 1u, 64u, 65u, 100u}) {
      std::vector<float> in(size, 3), out(size, -1);
      // The runner checks that nothing was written behind the scratch.
      const KernelStatus status =
          compile_and_run(kernel, target_for_isa(isa), std::vector<Argument>{vector_of(in), vector_of(out)});
      EXPECT_EQ(status.code, size > 64 ? static_cast<std::int32_t>(StatusCode::LocalTooLarge) : 0) << size;
      if (size <= 64) {
        EXPECT_EQ(out, in);
      }
    }
  }
}

TEST(Refusals, AreErrorsThatSayWhy) {
  tile::Schedule schedule;
  schedule.grid_order = {1, 0};
  const auto artifact = compile(lookup(), schedule, target_for_isa(Isa::X86_64_V3), "kernel");
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), ErrorCode::Refused);
  EXPECT_NE(artifact.error().message().find("[1, 0]"), std::string::npos) << artifact.error().message();
}

TEST(GridOrder, RunsEveryProgram) {
  KernelBuilder k("numbers");
  const View y = k.output("y", Type::view(DType::I64, {kDynamic, kDynamic}));
  k.grid([&]() -> Indices { return {y.dim(0), y.dim(1)}; });
  const Expr i = k.program_id(0), j = k.program_id(1);
  y.store({i, j}, i * 100 + j + k.num_programs(1) * 10000);
  const Kernel kernel = k.finish();
  for (const std::vector<int>& order : {std::vector<int>{}, {0, 1}, {1, 0}}) {
    tile::Schedule schedule;
    schedule.grid_order = order;
    std::vector<std::int64_t> data(3 * 5, -1);
    const std::vector<Argument> arguments{
        ViewArgument{std::as_writable_bytes(std::span(data)), 0, {3, 5}, {5, 1}}};
    EXPECT_EQ(compile_and_run(kernel, target_for_isa(Isa::X86_64_V3), arguments, schedule).code, 0);
    for (std::int64_t n = 0; n < 15; ++n) {
      EXPECT_EQ(data[static_cast<std::size_t>(n)], n / 5 * 100 + n % 5 + 50000);
    }
  }
}

TEST(Listing, ShowsBothForms) {
  const Target target = target_for_isa(Isa::X86_64_V3);
  const std::string ir = listing(lookup(), {}, target, Listing::LlvmIr).value();
  EXPECT_NE(ir.find("define void @lookup("), std::string::npos);
  EXPECT_NE(ir.find("define i64 @lookup_scratch("), std::string::npos);
  const std::string assembly = listing(lookup(), {}, target, Listing::Assembly).value();
  EXPECT_NE(assembly.find("lookup_grid:"), std::string::npos);
}

}  // namespace
}  // namespace kiln::jit
