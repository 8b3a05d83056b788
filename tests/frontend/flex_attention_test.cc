// FlexAttention, run by the reference kernels and compared with plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/base/float_types.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/reference.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using testing::graph_attribute;
using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::set;
using testing::set_number;

constexpr const char* kPreview = "ai.onnx.preview";

struct Case {
  std::int64_t batch = 2, heads = 6, groups = 2, queries = 5, keys = 3, size = 4, width = 7;
};

// [batch, heads, length, size], with values that f16 and bf16 have.
struct Heads {
  Extents extents;
  std::vector<double> values;

  Heads(Extents e, unsigned seed) : extents(std::move(e)) {
    std::mt19937 engine(seed);
    values.resize(static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]));
    for (double& x : values) x = static_cast<double>(engine() % 65) / 32 - 1;
  }
  double at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i) const {
    return values[static_cast<std::size_t>(((b * extents[1] + h) * extents[2] + t) * extents[3] + i)];
  }
  Tensor as(DType dtype) const {
    switch (dtype) {
      case DType::F16:
        return tensor<Float16>(dtype);
      case DType::BF16:
        return tensor<BFloat16>(dtype);
      case DType::F64:
        return tensor<double>(dtype);
      default:
        return tensor<float>(dtype);
    }
  }

 private:
  template <typename T>
  Tensor tensor(DType dtype) const {
    std::vector<T> converted;
    for (const double x : values) converted.push_back(static_cast<T>(x));
    return Tensor::from(dtype, extents, std::span<const T>(converted));
  }
};

struct Operands {
  Heads q, k, v;
  explicit Operands(const Case& c)
      : q({c.batch, c.heads, c.queries, c.size}, 1),
        k({c.batch, c.groups, c.keys, c.size}, 2),
        v({c.batch, c.groups, c.keys, c.width}, 3) {}
};

using Modify = std::function<double(double x, std::int64_t query, std::int64_t key)>;
const Modify kAsItIs = [](double x, auto, auto) { return x; };

std::vector<double> attend(const Case& c, const Operands& in, double scale, const Modify& score_mod = kAsItIs,
                           const Modify& prob_mod = kAsItIs) {
  std::vector<double> y;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t g = h / (c.heads / c.groups);
      for (std::int64_t s = 0; s < c.queries; ++s) {
        std::vector<double> weights;
        for (std::int64_t t = 0; t < c.keys; ++t) {
          double dot = 0;
          for (std::int64_t i = 0; i < c.size; ++i) dot += in.q.at(b, h, s, i) * in.k.at(b, g, t, i);
          weights.push_back(std::exp(score_mod(dot * scale, s, t)));
        }
        double sum = 0;
        for (const double weight : weights) sum += weight;
        for (std::int64_t j = 0; j < c.width; ++j) {
          double total = 0;
          for (std::int64_t t = 0; t < c.keys; ++t) {
            total += prob_mod(weights[static_cast<std::size_t>(t)] / sum, s, t) * in.v.at(b, g, t, j);
          }
          y.push_back(total);
        }
      }
    }
  }
  return y;
}

int onnx_type(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return onnx::TensorProto::FLOAT16;
    case DType::BF16:
      return onnx::TensorProto::BFLOAT16;
    case DType::F64:
      return onnx::TensorProto::DOUBLE;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

// A model of the node, whose operands are Q, K and V; configure(builder, node) adds to it.
ModelBuilder model(const Operands& in, DType dtype,
                   const std::function<void(ModelBuilder&, onnx::NodeProto&)>& configure = {}) {
  ModelBuilder builder(26, kPreview);
  for (const auto& [name, heads] : {std::pair("Q", &in.q), std::pair("K", &in.k), std::pair("V", &in.v)}) {
    std::vector<testing::DimSpec> dims;
    for (const std::int64_t extent : heads->extents) dims.emplace_back(static_cast<int>(extent));
    builder.input(name, dims, onnx_type(dtype));
  }
  auto& node = builder.node("FlexAttention", {"Q", "K", "V"}, {"Y"}, kPreview);
  if (configure) configure(builder, node);
  builder.output("Y");
  return builder;
}

// Whether all of shapes is known at load, or only ranks, or nothing.
void expect_near(const ModelBuilder& builder, const Case& c, const Operands& in, DType dtype,
                 const std::vector<double>& want, double tolerance) {
  const std::vector<Tensor> inputs = {in.q.as(dtype), in.k.as(dtype), in.v.as(dtype)};
  for (const bool hide_dims : {false, true}) {
    for (const bool hide_rank : {false, true}) {
      if (hide_rank && !hide_dims) continue;
      LoadOptions options;
      options.hide_dims = hide_dims;
      options.hide_rank = hide_rank;
      const Tensor got = reference::evaluate(builder.load(options), inputs, {})[0];
      ASSERT_EQ(got.dtype(), dtype);
      ASSERT_EQ(got.extents(), (Extents{c.batch, c.heads, c.queries, c.width}));
      const std::vector<double> y = reference::to_numbers(got);
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(y[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
      }
    }
  }
}

// A graph that gives `op`(its input, a scalar of its own named "c").
void add_modifier(onnx::NodeProto& node, const std::string& name, const std::string& op, double c,
                  DType dtype) {
  auto& graph = graph_attribute(node, name);
  ModelBuilder::set_type(*graph.add_input(), "x", {"B", "H", "L", "S"}, onnx_type(dtype));
  auto& constant = *graph.add_initializer();
  constant.set_name("c");
  constant.set_data_type(onnx_type(dtype));
  if (dtype == DType::F64) {
    constant.add_double_data(c);
  } else {
    constant.add_float_data(static_cast<float>(c));
  }
  ModelBuilder::add_node(*graph.mutable_node(), op, {"x", "c"}, {"y"});
  graph.add_output()->set_name("y");
}

TEST(FlexAttention, HeadsAlikeOrInGroups) {
  for (const auto& [heads, groups] : {std::pair(3, 3), std::pair(6, 2), std::pair(5, 1), std::pair(1, 1)}) {
    Case c;
    c.heads = heads;
    c.groups = groups;
    const Operands in(c);
    expect_near(model(in, DType::F32), c, in, DType::F32, attend(c, in, 0.5), 1e-5);
    const auto scaled = [](ModelBuilder&, onnx::NodeProto& node) { set_number(node, "scale", -0.75F); };
    expect_near(model(in, DType::F32, scaled), c, in, DType::F32, attend(c, in, -0.75), 1e-5);
  }
}

TEST(FlexAttention, LengthsOfOneAndOfNothing) {
  for (const auto& [batch, queries] : {std::pair(1, 1), std::pair(0, 2), std::pair(2, 0)}) {
    Case c;
    c.batch = batch;
    c.queries = queries;
    c.keys = 1;
    const Operands in(c);
    expect_near(model(in, DType::F32), c, in, DType::F32, attend(c, in, 0.5), 1e-5);
  }
}

TEST(FlexAttention, ComputesNarrowTypesInF32) {
  const Case c;
  const Operands in(c);
  const std::vector<double> plain = attend(c, in, 0.5);
  const auto modifiers = [](DType dtype) {
    return [dtype](ModelBuilder&, onnx::NodeProto& node) {
      add_modifier(node, "score_mod", "Mul", 1.5, dtype);
      add_modifier(node, "prob_mod", "Add", 0.25, dtype);
    };
  };
  const auto more = [](double x, auto, auto) { return 1.5 * x; };
  const auto higher = [](double x, auto, auto) { return x + 0.25; };
  const std::vector<double> modified = attend(c, in, 0.5, more, higher);
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::F16, 0x1p-11), std::pair(DType::BF16, 0x1p-8), std::pair(DType::F32, 1e-5)}) {
    expect_near(model(in, dtype), c, in, dtype, plain, tolerance);
    expect_near(model(in, dtype, modifiers(DType::F32)), c, in, dtype, modified, tolerance);
  }
  expect_near(model(in, DType::F64, modifiers(DType::F64)), c, in, DType::F64, modified, 1e-13);
}

TEST(FlexAttention, SoftmaxPrecisionIsTheTypeOfScores) {
  const Case c;
  const Operands in(c);
  const auto precision = [](int type) {
    return [type](ModelBuilder&, onnx::NodeProto& node) { set(node, "softmax_precision", type); };
  };
  const std::vector<double> plain = attend(c, in, 0.5);
  for (const DType dtype : {DType::F16, DType::F32, DType::F64}) {
    for (const auto& [type, tolerance] :
         {std::pair(onnx::TensorProto::FLOAT, 1e-5), std::pair(onnx::TensorProto::DOUBLE, 1e-5),
          std::pair(onnx::TensorProto::FLOAT16, 0x1p-9), std::pair(onnx::TensorProto::BFLOAT16, 0x1p-6)}) {
      expect_near(model(in, dtype, precision(type)), c, in, dtype, plain,
                  std::max(tolerance, dtype == DType::F16 ? 0x1p-11 : 0.0));
    }
  }
  const auto wide = [](ModelBuilder&, onnx::NodeProto& node) {
    set(node, "softmax_precision", onnx::TensorProto::DOUBLE);
    add_modifier(node, "score_mod", "Add", 2, DType::F64);  // which Softmax does not see
  };
  expect_near(model(in, DType::F32, wide), c, in, DType::F32, plain, 1e-5);
  EXPECT_THROW(model(in, DType::F32, precision(onnx::TensorProto::INT32)).load(), Error);
}

// A mask made of the lengths of the scores, and weights of the model around.
TEST(FlexAttention, GraphsSeeLengthsAndValuesAround) {
  const Case c;
  const Operands in(c);
  const auto configure = [&](ModelBuilder& builder, onnx::NodeProto& node) {
    builder.floats("around", {c.keys}, {0.5F, 2, -1});
    auto& graph = graph_attribute(node, "score_mod");
    ModelBuilder::set_type(*graph.add_input(), "x", {"B", "H", "L", "S"}, onnx::TensorProto::FLOAT);
    auto& nodes = *graph.mutable_node();
    const auto length = [&](const char* name, std::int64_t axis) {
      auto& shape = ModelBuilder::add_node(nodes, "Shape", {"x"}, {name});
      set(shape, "start", axis);
      set(shape, "end", axis + 1);
    };
    const auto constant = [&](const char* name, const std::vector<std::int64_t>& dims, std::int64_t value) {
      auto& tensor = *graph.add_initializer();
      tensor.set_name(name);
      tensor.set_data_type(onnx::TensorProto::INT64);
      for (const std::int64_t dim : dims) tensor.add_dims(dim);
      tensor.add_int64_data(value);
    };
    constant("zero", {}, 0);
    constant("one", {}, 1);
    constant("axis", {1}, 1);
    auto& low = *graph.add_initializer();
    low.set_name("low");
    low.set_data_type(onnx::TensorProto::FLOAT);
    low.add_float_data(-INFINITY);
    length("queries", 2);
    length("keys", 3);
    for (const std::string name : {"queries", "keys"}) {
      ModelBuilder::add_node(nodes, "Squeeze", {name}, {name + "_scalar"});
      ModelBuilder::add_node(nodes, "Range", {"zero", name + "_scalar", "one"}, {name + "_at"});
    }
    ModelBuilder::add_node(nodes, "Unsqueeze", {"queries_at", "axis"}, {"column"});
    ModelBuilder::add_node(nodes, "GreaterOrEqual", {"column", "keys_at"}, {"taken"});
    ModelBuilder::add_node(nodes, "Where", {"taken", "x", "low"}, {"masked"});
    ModelBuilder::add_node(nodes, "Add", {"masked", "around"}, {"y"});
    graph.add_output()->set_name("y");
  };
  const std::vector<double> around = {0.5, 2, -1};
  const auto causal = [&](double x, std::int64_t query, std::int64_t key) {
    return query >= key ? x + around[static_cast<std::size_t>(key)] : -INFINITY;
  };
  expect_near(model(in, DType::F32, configure), c, in, DType::F32, attend(c, in, 0.5, causal), 1e-5);
}

TEST(FlexAttention, WrongFormsAreRefused) {
  const Operands in{Case{}};
  const auto failure = [&](const std::function<void(onnx::GraphProto&)>& spoil) -> std::string {
    const auto configure = [&](ModelBuilder&, onnx::NodeProto& node) {
      add_modifier(node, "prob_mod", "Mul", 2, DType::F32);
      spoil(*node.mutable_attribute(0)->mutable_g());
    };
    try {
      model(in, DType::F32, configure).load();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
      return error.what();
    }
    return "loaded";
  };
  EXPECT_EQ(failure([](auto&) {}), "loaded");
  EXPECT_THAT(failure([](auto& graph) { graph.add_input()->set_name("i"); }),
              HasSubstr("2 inputs, the node gives it 1"));
  EXPECT_THAT(failure([](auto& graph) { graph.add_output()->set_name("x"); }), HasSubstr("2 outputs"));
  EXPECT_THAT(failure([](auto& graph) { graph.mutable_node(0)->set_op_type("Less"); }),
              HasSubstr("gives i1, expected f32"));
  EXPECT_THAT(failure([](auto& graph) {
                graph.mutable_node(0)->set_op_type("Flatten");
                graph.mutable_node(0)->mutable_input()->RemoveLast();
              }),
              HasSubstr("rank 2, expected 4"));
  Case uneven;
  uneven.heads = 5;
  EXPECT_THROW(model(Operands(uneven), DType::F32).load(), Error);
  Case none;
  none.groups = 0;
  EXPECT_THROW(model(Operands(none), DType::F32).load(), Error);
}

}  // namespace
}  // namespace kiln::frontend
