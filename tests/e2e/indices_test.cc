// Operators whose indices come with the run, on generated kernels and two threads, against plain loops; what
// is out of range is an Error.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::elements;
using e2e::load;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int kInt64 = onnx::TensorProto::INT64;

Tensor random_floats(Extents extents, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor(DType::F32, std::move(extents));
  for (float& x : tensor.as_mutable<float>()) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return tensor;
}

// From either end of an axis.
Tensor random_indices(Extents extents, std::int64_t extent) {
  std::mt19937 random(7);
  Tensor tensor(DType::I64, std::move(extents));
  for (std::int64_t& i : tensor.as_mutable<std::int64_t>())
    i = std::uniform_int_distribution<std::int64_t>(-extent, extent - 1)(random);
  return tensor;
}

std::size_t counted(std::int64_t index, std::int64_t extent) {
  return static_cast<std::size_t>(index < 0 ? index + extent : index);
}

void expect_out_of_range(const Session& session, std::initializer_list<NamedTensor> inputs) {
  try {
    session.run(inputs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller);
    EXPECT_EQ(error.code(), ErrorCode::IndexOutOfRange) << error.what();
  }
}

TEST(Indices, GatherElementsOfRows) {
  ModelBuilder model(18);
  model.input("x", {"n", 50}).input("i", {"n", "k"}, kInt64);
  set(model.node("GatherElements", {"x", "i"}, {"y"}), "axis", std::int64_t{1});
  model.output("y");
  const Session session = load(model, {.threads = 2});
  for (const std::int64_t n : {0, 1, 3, 700}) {
    for (const std::int64_t k : {1, 9, 1100}) {
      const Tensor x = random_floats({n, 50}, 1);
      Tensor i = random_indices({n, k}, 50);
      std::vector<float> want;
      for (std::size_t at = 0; at < i.as<std::int64_t>().size(); ++at) {
        const std::size_t row = at / static_cast<std::size_t>(k);
        want.push_back(x.as<float>()[row * 50 + counted(i.as<std::int64_t>()[at], 50)]);
      }
      EXPECT_THAT(elements(session.run({{"x", x}, {"i", i}})[0]), ElementsAreArray(want)) << n << " " << k;
      for (const std::int64_t bad : {-51, 50}) {
        if (n == 0) continue;
        i.as_mutable<std::int64_t>().back() = bad;
        expect_out_of_range(session, {{"x", x}, {"i", i}});
      }
    }
  }
  EXPECT_EQ(session.stats().fallback_nodes, 0);
}

TEST(Indices, NoMoreIndicesThanData) {
  ModelBuilder model(18);
  model.input("x", {"a", 50}).input("i", {"b", "k"}, kInt64);
  set(model.node("GatherElements", {"x", "i"}, {"y"}), "axis", std::int64_t{1});
  model.output("y");
  const Session session = load(model, {.threads = 2});
  const Tensor x = random_floats({3, 50}, 1);
  EXPECT_EQ(session.run({{"x", x}, {"i", random_indices({2, 7}, 50)}})[0].extents(), (Extents{2, 7}));
  EXPECT_EQ(session.stats().fallback_nodes, 0);
  try {
    session.run({{"x", x}, {"i", random_indices({4, 7}, 50)}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ShapeMismatch) << error.what();
  }
}

TEST(Indices, AnAxisWithoutElementsHasNoExtreme) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    ModelBuilder model(18);
    model.input("x", {"a", "b"});
    set(model.node(op, {"x"}, {"y"}), "axis", std::int64_t{1});
    model.output("y");
    const Session session = load(model, {.threads = 2});
    const Session reference = load(model, {.kernels = KernelChoice::Reference});
    session.run({{"x", random_floats({3, 1}, 1)}});
    EXPECT_EQ(session.stats().fallback_nodes, 0);
    for (const Session* kernels : {&session, &reference}) {
      EXPECT_EQ(kernels->run({{"x", random_floats({0, 5}, 1)}})[0].extents(), (Extents{0, 1}));
      // No result wants an element.
      EXPECT_EQ(kernels->run({{"x", random_floats({0, 0}, 1)}})[0].extents(), (Extents{0, 1}));
      try {
        kernels->run({{"x", random_floats({3, 0}, 1)}});
        FAIL() << op;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::ShapeMismatch) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(op));
      }
    }
  }
}

TEST(Indices, ScatterRowsInOrder) {
  for (const std::string reduction : {"none", "add"}) {
    ModelBuilder model(18);
    model.input("x", {11, "c"}).input("i", {"r", 1}, kInt64).input("u", {"r", "c"});
    auto& attribute = set(model.node("ScatterND", {"x", "i", "u"}, {"y"}), "reduction");
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(reduction);
    model.output("y");
    const Session session = load(model, {.threads = 2});
    for (const std::int64_t r : {0, 1, 40}) {
      for (const std::int64_t c : {1, 5, 3000}) {
        const Tensor x = random_floats({11, c}, 1), u = random_floats({r, c}, 2);
        Tensor i = random_indices({r, 1}, 11);
        std::vector<float> want = elements(x);
        for (std::size_t at = 0; at < u.as<float>().size(); ++at) {
          const auto width = static_cast<std::size_t>(c);
          float& old = want[counted(i.as<std::int64_t>()[at / width], 11) * width + at % width];
          old = reduction == "none" ? u.as<float>()[at] : old + u.as<float>()[at];
        }
        EXPECT_THAT(elements(session.run({{"x", x}, {"i", i}, {"u", u}})[0]), ElementsAreArray(want))
            << r << " " << c;
        for (const std::int64_t bad : {-12, 11}) {
          if (r == 0) continue;
          i.as_mutable<std::int64_t>().back() = bad;
          expect_out_of_range(session, {{"x", x}, {"i", i}, {"u", u}});
        }
      }
    }
    EXPECT_EQ(session.stats().fallback_nodes, 0);
  }
}

TEST(Indices, ReversedSequences) {
  ModelBuilder model(18);
  model.input("x", {"n", "t"}).input("lengths", {"n"}, kInt64);
  auto& node = model.node("ReverseSequence", {"x", "lengths"}, {"y"});
  set(node, "batch_axis", std::int64_t{0});
  set(node, "time_axis", std::int64_t{1});
  model.output("y");
  const Session session = load(model, {.threads = 2});
  for (const std::int64_t t : {1, 6, 1500}) {
    const Tensor x = random_floats({3, t}, 1);
    const std::vector<std::int64_t> lengths{0, t, t / 2};
    std::vector<float> want;
    for (std::int64_t n = 0; n < 3; ++n) {
      const std::int64_t length = lengths[static_cast<std::size_t>(n)];
      for (std::int64_t i = 0; i < t; ++i)
        want.push_back(x.as<float>()[static_cast<std::size_t>(n * t + (i < length ? length - 1 - i : i))]);
    }
    const auto got = session.run({{"x", x}, {"lengths", Tensor::from_integers(lengths)}});
    EXPECT_THAT(elements(got[0]), ElementsAreArray(want)) << t;
    for (const std::int64_t bad : {std::int64_t{-1}, t + 1})
      expect_out_of_range(session, {{"x", x}, {"lengths", Tensor::from_integers(std::array{t, bad, t})}});
  }
  EXPECT_EQ(session.stats().fallback_nodes, 0);
}

}  // namespace
}  // namespace kiln
