// Bounds, types and sizes at the edge of what movement operators take, on generated and on reference kernels.
#include <algorithm>
#include <array>
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

void expect_refused(const Session& session, std::span<const NamedTensor> inputs, const std::string& op) {
  try {
    session.run(inputs);
    ADD_FAILURE() << op;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(op));
  }
}

// Every position at which a window of `span` starts in the image or the padding before it, and ends in the
// padding behind it, or with `ceil_mode` less than a stride beyond.
std::int64_t positions(std::int64_t extent, std::int64_t span, std::int64_t stride, std::int64_t begin,
                       std::int64_t end, bool ceil_mode) {
  std::int64_t count = 0;
  const std::int64_t over = ceil_mode ? stride - 1 : 0;
  for (std::int64_t at = 0; at + span <= begin + extent + end + over; at += stride) {
    if (!ceil_mode || at < begin + extent) ++count;
  }
  return count;
}

TEST_P(OddBounds, WindowsMustFit) {
  struct Row {
    const char* op;
    std::int64_t stride, dilation, begin, end;
    bool ceil_mode;
  };
  constexpr Row kRows[] = {{"Conv", 1, 1, 0, 0, false},       {"Conv", 2, 1, 1, 0, false},
                           {"Conv", 3, 2, 0, 1, false},       {"MaxPool", 1, 1, 0, 0, false},
                           {"MaxPool", 2, 1, 1, 1, false},    {"MaxPool", 2, 1, 0, 0, true},
                           {"MaxPool", 3, 2, 0, 1, true},     {"AveragePool", 1, 1, 0, 0, false},
                           {"AveragePool", 3, 1, 1, 0, true}, {"LpPool", 2, 1, 0, 1, false}};
  constexpr std::int64_t kKernel = 4;
  for (const auto& [op, stride, dilation, begin, end, ceil_mode] : kRows) {
    ModelBuilder model(19);
    model.input("x", {"n", 1, "h"}).floats("w", {1, 1, kKernel}, {1, 1, 1, 1});
    const bool conv = std::string_view(op) == "Conv";
    auto& node =
        model.node(op, conv ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x"}, {"y"});
    set_integers(node, "kernel_shape", {kKernel});
    set_integers(node, "strides", {stride});
    set_integers(node, "dilations", {dilation});
    set_integers(node, "pads", {begin, end});
    if (ceil_mode) set(node, "ceil_mode", 1);
    model.output("y");
    const Session session = load(model, {.kernels = GetParam()});
    for (std::int64_t h = 0; h < 12; ++h) {
      SCOPED_TRACE(::testing::Message() << op << " of " << h << " by " << stride << ", " << dilation);
      const std::int64_t count = positions(h, (kKernel - 1) * dilation + 1, stride, begin, end, ceil_mode);
      const NamedTensor x = {"x", Tensor(DType::F32, {2, 1, h})};
      if (count > 0) {
        EXPECT_EQ(session.run(std::span(&x, 1))[0].extents(), (Extents{2, 1, count}));
      } else {
        expect_refused(session, std::span(&x, 1), op);
      }
    }
  }
}

TEST_P(OddBounds, SamePaddingOfNothing) {
  for (const char* op : {"Conv", "MaxPool"}) {
    for (const std::int64_t stride : {1, 2}) {
      ModelBuilder model(19);
      model.input("x", {"n", 1, "h"}).floats("w", {1, 1, 4}, {1, 1, 1, 1});
      const bool conv = std::string_view(op) == "Conv";
      auto& node =
          model.node(op, conv ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x"}, {"y"});
      set_integers(node, "kernel_shape", {4});
      set_integers(node, "strides", {stride});
      set_text(node, "auto_pad", "SAME_LOWER");
      model.output("y");
      const Session session = load(model, {.kernels = GetParam()});
      for (const std::int64_t h : {0, 1, 5}) {
        const NamedTensor x = {"x", Tensor(DType::F32, {2, 1, h})};
        if (h > 0) {
          EXPECT_EQ(session.run(std::span(&x, 1))[0].extents(), (Extents{2, 1, (h + stride - 1) / stride}));
        } else {
          expect_refused(session, std::span(&x, 1), op);
        }
      }
    }
  }
}

TEST_P(OddBounds, NormalisesNothing) {
  ModelBuilder model(13);
  model.input("x", {"n", "c", "h"});
  set(model.node("LRN", {"x"}, {"y"}), "size", 5);
  model.output("y");
  const Session session = load(model, {.kernels = GetParam()});
  for (const Extents& extents : {Extents{2, 0, 3}, {2, 3, 0}, {0, 3, 3}, {2, 1, 3}}) {
    const NamedTensor x = {"x", Tensor(DType::F32, extents)};
    EXPECT_EQ(session.run(std::span(&x, 1))[0].extents(), extents);
  }
}

TEST_P(OddBounds, TransposedConvolutionCannotLoseMoreThanThereIs) {
  ModelBuilder model(13);
  model.input("x", {"n", 1, "h"}).floats("w", {1, 1, 2}, {1, 1});
  set_integers(model.node("ConvTranspose", {"x", "w"}, {"y"}), "pads", {2, 1});
  model.output("y");
  const Session session = load(model, {.kernels = GetParam()});
  for (std::int64_t h = 1; h < 5; ++h) {
    const NamedTensor x = {"x", Tensor(DType::F32, {2, 1, h})};
    if (h + 1 >= 3) {
      EXPECT_EQ(session.run(std::span(&x, 1))[0].extents(), (Extents{2, 1, h - 2}));
    } else {
      expect_refused(session, std::span(&x, 1), "ConvTranspose");
    }
  }
}

TEST_P(OddBounds, SplitIntoMoreThanThereIs) {
  ModelBuilder model(18);
  model.input("x", {"n"});
  set(model.node("Split", {"x"}, {"a", "b", "c", "d"}), "num_outputs", 4);
  for (const char* output : {"a", "b", "c", "d"}) model.output(output);
  const Session session = load(model, {.kernels = GetParam()});
  for (std::int64_t n = 0; n < 12; ++n) {
    const NamedTensor x = {"x", Tensor(DType::F32, {n})};
    const std::int64_t part = (n + 3) / 4;
    if (n >= 3 * part) {
      const auto parts = session.run(std::span(&x, 1));
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(parts[i].extents(), (Extents{i < 3 ? part : n - 3 * part})) << n;
    } else {
      expect_refused(session, std::span(&x, 1), "Split");
    }
  }
}

TEST_P(OddBounds, NothingIsGatheredFromNothing) {
  ModelBuilder model(18);
  model.input("x", {"n", "m"}).integers("i", {2, 1}, {0, -3});
  model.node("Gather", {"x", "i"}, {"y"});
  model.node("GatherND", {"x", "i"}, {"z"});
  model.output("y").output("z");
  const Session session = load(model, {.kernels = GetParam()});
  for (const Extents& extents : {Extents{3, 2}, {0, 2}, {3, 0}, {0, 0}}) {
    const NamedTensor x = {"x", Tensor(DType::F32, extents)};
    if (extents == Extents{0, 2}) {
      expect_refused(session, std::span(&x, 1), "Gather");
      continue;
    }
    const auto got = session.run(std::span(&x, 1));
    EXPECT_EQ(got[0].extents(), (Extents{2, 1, extents[1]}));
    EXPECT_EQ(got[1].extents(), (Extents{2, extents[1]}));
  }
}

// An axis that is copied is on both sides, so -1 is known where it is 0.
TEST_P(OddBounds, ReshapeOfNothing) {
  const auto reshaped = [&](const std::vector<std::int64_t>& shape, const Extents& extents) {
    ModelBuilder model(18);
    model.input("x", {"a", "b", "c"}).integers("shape", {static_cast<std::int64_t>(shape.size())}, shape);
    model.node("Reshape", {"x", "shape"}, {"y"});
    model.output("y");
    const NamedTensor x = {"x", Tensor(DType::F32, extents)};
    return load(model, {.kernels = GetParam()}).run(std::span(&x, 1))[0].extents();
  };
  for (const std::int64_t n : {0, 2}) {
    EXPECT_EQ(reshaped({0, -1}, {n, 5, 3}), (Extents{n, 15}));
    EXPECT_EQ(reshaped({0, 5, -1}, {n, 5, 3}), (Extents{n, 5, 3}));
    EXPECT_EQ(reshaped({0, 0, -1}, {4, n, 3}), (Extents{4, n, 3}));
    EXPECT_EQ(reshaped({-1, 3}, {n, 5, 3}), (Extents{5 * n, 3}));
    EXPECT_EQ(reshaped({-1, 0, 3}, {4, n, 3}), (Extents{4, n, 3}));
  }
  EXPECT_EQ(reshaped({0, 3}, {0, 5, 3}), (Extents{0, 3}));
  EXPECT_THROW(reshaped({0, -1, 4}, {0, 5, 3}), Error);  // 15 elements each
}

// A product of extents that is 0 does not say that an axis is copied.
TEST_P(OddBounds, ReshapeToExtentsThatWereComputed) {
  ModelBuilder model(18);
  model.input("x", {"a", "b", "c"}).integers("first", {2}, {0, 1}).integers("zero", {1}, {0});
  model.integers("open", {1}, {-1});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "first"}, {"leading"});
  model.node("ReduceProd", {"leading", "zero"}, {"rows"});
  set(model.node("Concat", {"rows", "open"}, {"target"}), "axis", std::int64_t{0});
  model.node("Reshape", {"x", "target"}, {"y"});
  model.output("y");
  const Session session = load(model, {.kernels = GetParam()});
  for (const Extents& extents : {Extents{2, 5, 3}, {0, 5, 3}, {4, 0, 3}}) {
    const NamedTensor x = {"x", Tensor(DType::F32, extents)};
    EXPECT_EQ(session.run(std::span(&x, 1))[0].extents(), (Extents{extents[0] * extents[1], extents[2]}));
  }
}

TEST_P(OddBounds, NoAxisIsListedTwice) {
  for (const char* op : {"ReduceSum", "ReduceMax", "Squeeze", "Unsqueeze", "Slice", "Pad"}) {
    for (const bool constant : {true, false}) {
      SCOPED_TRACE(::testing::Message() << op << (constant ? ", constant axes" : ""));
      ModelBuilder model(19);
      const bool unsqueezes = std::string_view(op) == "Unsqueeze";
      const std::vector<std::int64_t> axes = {0, unsqueezes ? -4 : -2};
      model.input("x", {1, "n"}).integers("bounds", {2}, {0, 0}).integers("pads", {4}, {0, 0, 0, 0});
      if (constant) {
        model.integers("axes", {2}, axes);
      } else {
        model.input("axes", {2}, onnx::TensorProto::INT64);
      }
      std::vector<std::string> inputs = {"x", "axes"};
      if (std::string_view(op) == "Slice") inputs = {"x", "bounds", "bounds", "axes"};
      if (std::string_view(op) == "Pad") inputs = {"x", "pads", "", "axes"};
      model.node(op, inputs, {"y"});
      model.output("y");
      const NamedTensor given[] = {{"x", Tensor(DType::F32, {1, 3})}, {"axes", Tensor::from_integers(axes)}};
      try {
        load(model, {.kernels = GetParam()}).run(std::span(given).first(constant ? 1 : 2));
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("twice"));
        EXPECT_THAT(error.what(), HasSubstr(op));
      }
    }
  }
}

// Their number is exact.
TEST_P(OddBounds, RangesReachAcrossAllNumbers) {
  constexpr std::int64_t kLow = INT64_MIN, kHigh = INT64_MAX, kFar = std::int64_t{1} << 62;
  constexpr std::array<std::int64_t, 3> kRows[] = {
      {kLow, kHigh, kFar}, {kLow, kHigh, kHigh}, {kHigh, kLow, kLow},   {kHigh, kLow, -kFar},
      {0, 5, kHigh},       {5, 0, kLow},         {kHigh - 3, kHigh, 1}, {kLow, kLow + 5, 2},
      {kLow, kLow, 1},     {kHigh, kLow, 1}};
  for (const bool constant : {true, false}) {
    for (const auto& row : kRows) {
      SCOPED_TRACE(::testing::Message() << row[0] << " to " << row[1] << " by " << row[2]);
      ModelBuilder model(17);
      std::vector<NamedTensor> given;
      constexpr const char* kNames[] = {"start", "limit", "delta"};
      for (std::size_t i = 0; i < 3; ++i) {
        if (constant) {
          model.integers(kNames[i], {}, {row[i]});
        } else {
          model.input(kNames[i], {}, onnx::TensorProto::INT64);
          given.push_back({kNames[i], Tensor::from_integer(row[i])});
        }
      }
      model.node("Range", {"start", "limit", "delta"}, {"y"});
      model.output("y");
      std::vector<std::int64_t> want;
      long double at = row[0];  // holds every sum of two i64 exactly
      while (row[2] > 0 ? at < row[1] : at > row[1]) {
        want.push_back(static_cast<std::int64_t>(at));
        at += row[2];
      }
      EXPECT_THAT(load(model, {.kernels = GetParam()}).run(given)[0].to_integers(), ElementsAreArray(want));
    }
  }
}

TEST_P(OddBounds, TensorsThatAreTooLargeNameTheirMaker) {
  ModelBuilder model(17);
  model.input("x", {"a", "b"}).integers("first", {2}, {0, 0});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "first"}, {"square"});
  model.node("ConstantOfShape", {"square"}, {"zeros"}).set_name("maker");
  model.node("Exp", {"zeros"}, {"y"});
  model.output("y");
  const NamedTensor x = {"x", Tensor(DType::F32, {std::int64_t{1} << 40, 0})};
  try {
    load(model, {.kernels = GetParam()}).run(std::span(&x, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("node=maker"));
    EXPECT_THAT(error.what(), HasSubstr("op="));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OddBounds,
                         ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& kernels) {
                           return kernels.param == KernelChoice::Generated ? "generated" : "reference";
                         });

}  // namespace
}  // namespace kiln
