// Bounds, types and sizes at the edge of what movement operators take, on generated and on reference kernels.
#include <algorithm>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::load;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using frontend::testing::set_integers;
using frontend::testing::set_text;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class OddBounds : public ::testing::TestWithParam<KernelChoice> {};

// As the standard says: both clamped to [0, n] going forward; going backward a start to [0, n - 1] and an end
// to
// [-1, n - 1].
std::vector<float> sliced(std::int64_t n, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (n == 0) return {};
  const auto clamped = [&](std::int64_t bound, std::int64_t low, std::int64_t high) {
    const long double counted = bound < 0 ? static_cast<long double>(bound) + n : bound;
    return static_cast<std::int64_t>(counted < low ? low : counted > high ? high : counted);
  };
  std::vector<float> values;
  const std::int64_t last = step > 0 ? clamped(end, 0, n) : clamped(end, -1, n - 1);
  const std::int64_t stride = std::clamp(step, -n - 1, n + 1);  // as good as any further one
  for (std::int64_t i = step > 0 ? clamped(start, 0, n) : clamped(start, 0, n - 1);
       step > 0 ? i < last : i > last; i += stride) {
    values.push_back(static_cast<float>(i));
  }
  return values;
}

TEST_P(OddBounds, SliceClampsThem) {
  constexpr std::int64_t kBounds[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -9, -6, -5, -1, 0, 2, 4, 5,
                                      7,         INT32_MAX,     INT64_MAX};
  constexpr std::int64_t kSteps[] = {INT64_MIN, -7, -2, -1, 1, 3, INT64_MAX - 1, INT64_MAX};
  std::mt19937 random(3);
  for (int round = 0; round < 150; ++round) {
    const std::int64_t start = kBounds[random() % std::size(kBounds)],
                       end = kBounds[random() % std::size(kBounds)],
                       step = kSteps[random() % std::size(kSteps)];
    SCOPED_TRACE(::testing::Message() << "start " << start << ", end " << end << ", step " << step);
    ModelBuilder model(18);
    model.input("x", {"n"}).integers("start", {1}, {start}).integers("end", {1}, {end});
    model.integers("axis", {1}, {0}).integers("step", {1}, {step});
    model.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
    model.output("y");
    const Session session = load(model, {.kernels = GetParam()});
    for (const std::int64_t n : {5, 0, 1}) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i));
      const auto got = session.run({{"x", Tensor::from(DType::F32, {n}, std::span<const float>(values))}});
      const auto elements = got[0].as<float>();
      EXPECT_THAT(std::vector<float>(elements.begin(), elements.end()),
                  ElementsAreArray(sliced(n, start, end, step)))
          << "of " << n;
    }
  }
}

// Elements that share a byte.
TEST_P(OddBounds, NarrowElementsMove) {
  for (const auto& [dtype, type] : {std::pair{DType::I4, 22}, {DType::U4, 21}}) {
    SCOPED_TRACE(name(dtype));
    ModelBuilder model(21);
    model.input("x", {"n", 3}, type);
    set_integers(model.node("Transpose", {"x"}, {"t"}), "perm", {1, 0});
    model.integers("flat", {1}, {-1});
    model.node("Reshape", {"t", "flat"}, {"r"});
    set(model.node("Cast", {"r"}, {"y"}), "to", std::int64_t{onnx::TensorProto::FLOAT});
    model.output("y").output("t");
    const Session session = load(model, {.kernels = GetParam()});
    Tensor x(dtype, {2, 3});  // 1 2 3 / 4 5 6, the first in the low half of a byte
    const std::uint8_t packed[] = {0x21, 0x43, 0x65};
    std::memcpy(x.mutable_data(), packed, sizeof packed);
    const auto got = session.run({{"x", x}});
    const auto elements = got[0].as<float>();
    EXPECT_THAT(std::vector<float>(elements.begin(), elements.end()),
                ElementsAreArray(std::vector<float>{1, 4, 2, 5, 3, 6}));
    ASSERT_EQ(got[1].extents(), (Extents{3, 2}));
    constexpr double kTransposed[] = {1, 4, 2, 5, 3, 6};
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(got[1].number(i), kTransposed[i]);
  }
}

TEST_P(OddBounds, PadHasNothingToCopyFromAnEmptyAxis) {
  for (const char* mode : {"edge", "reflect", "wrap"}) {
    ModelBuilder model(19);
    model.input("x", {"n", 3}).integers("pads", {4}, {1, 0, 1, 0});
    set_text(model.node("Pad", {"x", "pads"}, {"y"}), "mode", mode);
    model.output("y");
    const Session session = load(model, {.kernels = GetParam()});
    EXPECT_EQ(session.run({{"x", Tensor(DType::F32, {2, 3})}})[0].extents(), (Extents{4, 3}));
    try {
      session.run({{"x", Tensor(DType::F32, {0, 3})}});
      ADD_FAILURE() << mode;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("Pad"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OddBounds,
                         ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& kernels) {
                           return kernels.param == KernelChoice::Generated ? "generated" : "reference";
                         });

}  // namespace
}  // namespace kiln
