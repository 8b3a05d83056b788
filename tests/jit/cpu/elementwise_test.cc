// Every primitive and every cast on every dtype, on special and random bits, against the interpreter.
#include <algorithm>
#include <cstring>
#include <random>

#include "ir/tile/builder.h"
#include "ir/tile/verifier.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_tile_program.h"

namespace kiln::jit {
namespace {

using tile::Expr;
using tile::Function;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Literal;
using tile::Opcode;
using tile::Operand;
using tile::RandomProgram;
using tile::Type;
using tile::View;

constexpr std::array kDTypes = {DType::I1,   DType::I8,  DType::I16, DType::I32, DType::I64,
                                DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                                DType::BF16, DType::F32, DType::F64};
constexpr std::int64_t kElements = 1037;  // whole vectors, and a rest of odd length
constexpr std::int64_t kBlock = 256;

std::vector<Function> primitives() {
  std::vector<Function> functions;
#define KILN_PRIMITIVE(enumerator, name, arity) functions.push_back(Function::enumerator);
#include "ir/tile/elementwise.def"
  return functions;
}

// Bits of every kind of value: extremes, halves, denormals, infinities, NaN, small integers, anything.
std::uint64_t random_bits(DType dtype, std::mt19937_64& random) {
  const int width = bits(dtype);
  const std::uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
  const auto kind = random() % 8;
  if (dtype == DType::I1) return random() & 1;
  if (is_float(dtype)) {
    constexpr std::array kSpecial = {
        0.0,       -0.0,  1.0,  -1.0,         0.5,           -0.5,   1.5,     2.5,  -2.5,  HUGE_VAL,
        -HUGE_VAL, 1e-40, 3e38, 2147483648.0, -2147483648.0, 9.3e18, 65504.0, 1e-5, 255.5, 0.49999997};
    if (kind < 2) return Literal::number(dtype, kSpecial[random() % kSpecial.size()]).bits;
    if (kind < 5)
      return Literal::number(dtype,
                             static_cast<double>(static_cast<std::int64_t>(random() % 4001) - 2000) / 8)
          .bits;
    return random() & mask;
  }
  if (kind < 4) return (random() % 16 - 8) & mask;
  if (kind == 4) return std::array<std::uint64_t, 4>{mask, mask >> 1, (mask >> 1) + 1, 0}[random() % 4];
  return random() & mask;
}

RandomProgram::Buffer buffer(DType dtype, bool output) {
  RandomProgram::Buffer result;
  result.dtype = dtype;
  result.bytes.resize(static_cast<std::size_t>(byte_size(dtype, kElements)));
  result.extents = {kElements};
  result.strides = {1};
  result.is_output = output;
  return result;
}

void fill(RandomProgram::Buffer& target, std::mt19937_64& random, bool avoid_zero) {
  const auto width = static_cast<std::size_t>(bits(target.dtype) / 8);
  for (std::int64_t i = 0; i < kElements; ++i) {
    std::uint64_t value = random_bits(target.dtype, random);
    if (avoid_zero && value == 0) value = 3;
    std::memcpy(target.bytes.data() + static_cast<std::size_t>(i) * width, &value, width);
  }
}

// y[i] = make(x0[i], x1[i], ...)
void check(const std::vector<DType>& inputs, DType output,
           const std::function<Expr(KernelBuilder&, std::vector<Expr>)>& make, const std::string& label,
           bool avoid_zero = false) {
  KernelBuilder k("elementwise");
  std::vector<View> views;
  std::mt19937_64 random(7);
  std::vector<RandomProgram::Buffer> buffers;
  for (const DType dtype : inputs) {
    views.push_back(k.input("x" + std::to_string(views.size()), Type::view(dtype, {kDynamic})));
    buffers.push_back(buffer(dtype, false));
    fill(buffers.back(), random, avoid_zero);
  }
  const View y = k.output("y", Type::view(output, {kDynamic}));
  buffers.push_back(buffer(output, true));
  k.grid([&]() -> Indices { return {ceildiv(y.dim(0), kBlock)}; });
  const Expr at = k.program_id(0) * kBlock;
  std::vector<Expr> loaded;
  for (const View& view : views) loaded.push_back(view.load({at}, {kBlock}, 1));
  y.store({at}, make(k, loaded));
  const Kernel kernel = k.finish();

  std::vector<RandomProgram::Buffer> expected = buffers;
  tile::interpret(kernel, RandomProgram::arguments(expected));
  for (const Isa isa : runnable_isas()) {
    std::vector<RandomProgram::Buffer> got = buffers;
    EXPECT_EQ(compile_and_run(kernel, target_for_isa(isa), RandomProgram::arguments(got)).code, 0) << label;
    EXPECT_EQ(tile::difference(expected, got), "") << label << " on " << name(isa);
  }
}

class Primitives : public ::testing::TestWithParam<Function> {};

TEST_P(Primitives, AgreeWithTheInterpreter) {
  const Function function = GetParam();
  for (const DType dtype : kDTypes) {
    std::vector<DType> inputs(static_cast<std::size_t>(tile::arity(function)), dtype);
    if (function == Function::Select) inputs[0] = DType::I1;
    if (function == Function::Ldexp) inputs[1] = dtype == DType::F64 ? DType::I64 : DType::I32;
    std::vector<Type> types;
    for (const DType input : inputs) types.push_back(Type::scalar(input));
    DType output;
    try {
      output = tile::infer_types(Opcode::Elementwise, types, {.function = function}, {})[0].element;
    } catch (const Error&) {
      continue;  // not on this dtype
    }
    const bool divides = is_integer(dtype) && (function == Function::Div || function == Function::Rem ||
                                               function == Function::FloorMod);
    check(
        inputs, output,
        [&](KernelBuilder& k, const std::vector<Expr>& x) {
          const std::vector<Operand> operands(x.begin(), x.end());
          return k.call(function, operands);
        },
        std::string(tile::name(function)) + " of " + std::string(name(dtype)), divides);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Primitives, ::testing::ValuesIn(primitives()),
                         [](const auto& test) { return std::string(tile::name(test.param)); });

class Casts : public ::testing::TestWithParam<DType> {};

TEST_P(Casts, AgreeWithTheInterpreter) {
  for (const DType to : kDTypes) {
    check(
        {GetParam()}, to, [&](KernelBuilder& k, const std::vector<Expr>& x) { return k.cast(x[0], to); },
        std::string(name(GetParam())) + " to " + std::string(name(to)));
    if (bits(to) == bits(GetParam()) && to != DType::I1 && GetParam() != DType::I1) {
      check(
          {GetParam()}, to, [&](KernelBuilder& k, const std::vector<Expr>& x) { return k.bitcast(x[0], to); },
          std::string(name(GetParam())) + " as " + std::string(name(to)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Casts, ::testing::ValuesIn(kDTypes),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace kiln::jit
