// What each old or foreign form of an operator becomes.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/graph/operands.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using graph::Graph;
using graph::OpKind;
using ::testing::ElementsAre;
using testing::first;
using testing::floats_of;
using ::testing::HasSubstr;
using testing::integers_of;
using testing::ModelBuilder;
using testing::operators_of;
using testing::set;
using testing::set_integers;
using testing::set_number;
using testing::set_numbers;
using testing::set_text;
using testing::shape_of;

std::string output_shape(const Graph& graph) { return shape_of(graph, graph.outputs.at(0)); }

std::string failure(const ModelBuilder& builder) {
  try {
    builder.load();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller);
    return error.what();
  }
  return "loaded";
}

// A model of one node with the float inputs `shapes`, named a, b, c ...
struct OneNode {
  OneNode(std::int64_t opset, const std::string& op, const std::vector<std::vector<testing::DimSpec>>& shapes,
          const std::string& domain = {}, int outputs = 1)
      : builder(opset, domain) {
    std::vector<std::string> inputs, results;
    for (const auto& shape : shapes) {
      inputs.emplace_back(1, static_cast<char>('a' + inputs.size()));
      builder.input(inputs.back(), shape);
    }
    for (int i = 0; i < outputs; ++i) results.push_back("y" + std::to_string(i));
    builder.node(op, inputs, results, domain).set_name("it");
    for (const std::string& result : results) builder.output(result);
  }
  onnx::NodeProto& node() { return *builder.model.mutable_graph()->mutable_node(0); }
  Graph load() const { return builder.load(); }

  ModelBuilder builder;
};

// --- elementwise

TEST(Translation, ConsumedInputsAreDropped) {
  OneNode model(1, "Relu", {{2, 3}});
  set_integers(model.node(), "consumed_inputs", {0});
  EXPECT_EQ(operators_of(model.load()), "Relu");
}

TEST(Translation, LegacyBroadcastAlongAnAxis) {
  OneNode model(6, "Add", {{2, 3, 4, 5}, {3, 4}});
  set(model.node(), "broadcast", 1);
  set(model.node(), "axis", 1);
  const Graph graph = model.load();
  EXPECT_EQ(operators_of(graph), "Unsqueeze Add");
  EXPECT_THAT(integers_of(graph, first(graph, OpKind::Unsqueeze), 1), ElementsAre(2));
  EXPECT_EQ(output_shape(graph), "2 x 3 x 4 x 5");
}

TEST(Translation, LegacyBroadcastAtTheEndNeedsNoNode) {
  OneNode model(6, "Mul", {{2, 3, 4}, {4}});
  set(model.node(), "broadcast", 1);
  EXPECT_EQ(operators_of(model.load()), "Mul");
  OneNode last(6, "Mul", {{2, 3, 4}, {3, 4}});
  set(last.node(), "broadcast", 1);
  set(last.node(), "axis", 1);
  EXPECT_EQ(operators_of(last.load()), "Mul");
  OneNode negative(6, "Sub", {{2, 3, 4}, {3}});
  set(negative.node(), "broadcast", 1);
  set(negative.node(), "axis", -2);
  EXPECT_EQ(operators_of(negative.load()), "Unsqueeze Sub");
  OneNode beyond(6, "Sub", {{2, 3, 4}, {3, 4}});
  set(beyond.node(), "broadcast", 1);
  set(beyond.node(), "axis", 2);
  EXPECT_THAT(failure(beyond.builder), HasSubstr("axis 2"));
}

TEST(Translation, CastTakesTextAndNumbers) {
  OneNode text(1, "Cast", {{2}});
  set_text(text.node(), "to", "INT64");
  const Graph graph = text.load();
  EXPECT_EQ(graph.value(graph.outputs[0]).dtype, DType::I64);
  OneNode number(13, "Cast", {{2}});
  set(number.node(), "to", onnx::TensorProto::BFLOAT16);
  const Graph other = number.load();
  EXPECT_EQ(other.value(other.outputs[0]).dtype, DType::BF16);
  EXPECT_EQ(graph::integer(first(other, OpKind::Cast), "to"), static_cast<std::int64_t>(DType::BF16));
  OneNode unknown(13, "Cast", {{2}});
  set(unknown.node(), "to", 99);
  EXPECT_THAT(failure(unknown.builder), HasSubstr("99"));
}

TEST(Translation, ClipBoundsBecomeInputs) {
  OneNode model(6, "Clip", {{2}});
  set_number(model.node(), "max", 6);
  const Graph graph = model.load();
  const graph::Node& clip = first(graph, OpKind::Clip);
  EXPECT_THAT(floats_of(graph, clip, 1), ElementsAre(std::numeric_limits<float>::lowest()));
  EXPECT_THAT(floats_of(graph, clip, 2), ElementsAre(6));
  OneNode half(10, "Clip", {});
  half.builder.input("h", {2}, onnx::TensorProto::FLOAT16);
  half.node().add_input("h");
  set_number(half.node(), "min", -1);
  const Graph halves = half.load();
  EXPECT_EQ(halves.value(first(halves, OpKind::Clip).inputs[1]).dtype, DType::F16);
}

TEST(Translation, DropoutRatioIsDropped) {
  OneNode model(7, "Dropout", {{2}}, "", 2);
  set_number(model.node(), "ratio", 0.75F);
  const Graph graph = model.load();
  EXPECT_EQ(graph.value(graph.outputs[1]).dtype, DType::F32);  // the mask was of the data's type
  OneNode later(10, "Dropout", {{2}}, "", 2);
  set_number(later.node(), "ratio", 0.75F);
  const Graph other = later.load();
  EXPECT_EQ(operators_of(other), "Dropout");
  EXPECT_EQ(other.value(other.outputs[1]).dtype, DType::I1);
}

TEST(Translation, PReluSlopeRunsAlongChannels) {
  OneNode model(6, "PRelu", {{2, 3, 4, 5}, {3}});
  const Graph graph = model.load();
  EXPECT_THAT(integers_of(graph, first(graph, OpKind::Unsqueeze), 1), ElementsAre(1, 2));
  EXPECT_EQ(output_shape(graph), "2 x 3 x 4 x 5");
  EXPECT_EQ(operators_of(OneNode(6, "PRelu", {{2, 3, 4}, {1}}).load()), "PRelu");
}

// --- views and movement

TEST(Translation, AttributesBecomeInputs) {
  {
    OneNode model(1, "Reshape", {{2, 3}});
    set_integers(model.node(), "shape", {3, 2});
    const Graph graph = model.load();
    EXPECT_THAT(integers_of(graph, first(graph, OpKind::Reshape), 1), ElementsAre(3, 2));
    EXPECT_EQ(output_shape(graph), "3 x 2");
  }
  {
    OneNode model(11, "Unsqueeze", {{"n", 3}});
    set_integers(model.node(), "axes", {0, 2});
    EXPECT_EQ(output_shape(model.load()), "1 x n x 1 x 3");
  }
  {
    OneNode model(11, "Squeeze", {{"n", 1, 1}});
    set_integers(model.node(), "axes", {-1});
    EXPECT_EQ(output_shape(model.load()), "n x 1");
  }
  {
    OneNode model(9, "Slice", {{"n", 10}});
    set_integers(model.node(), "starts", {2});
    set_integers(model.node(), "ends", {-1});
    set_integers(model.node(), "axes", {1});
    EXPECT_EQ(output_shape(model.load()), "n x 7");
  }
  {
    OneNode model(2, "Pad", {{"n", 4}});
    set_integers(model.node(), "pads", {0, 1, 0, 2});
    set_number(model.node(), "value", 3);
    const Graph graph = model.load();
    EXPECT_EQ(output_shape(graph), "n x 7");
    EXPECT_THAT(floats_of(graph, first(graph, OpKind::Pad), 2), ElementsAre(3));
  }
  {
    OneNode model(1, "Pad", {{"n", 4}});
    set_integers(model.node(), "paddings", {0, 1, 0, 2});
    EXPECT_EQ(output_shape(model.load()), "n x 7");
  }
  {
    OneNode model(9, "TopK", {{"n", 4}}, "", 2);
    set(model.node(), "k", 3);
    EXPECT_EQ(output_shape(model.load()), "n x 3");
  }
  {
    OneNode model(11, "ReduceSum", {{"n", 4, 5}});
    set_integers(model.node(), "axes", {1, -1});
    set(model.node(), "keepdims", 0);
    EXPECT_EQ(output_shape(model.load()), "n");
  }
  {
    OneNode model(17, "ReduceMax", {{"n", 4}});
    EXPECT_EQ(output_shape(model.load()), "1 x 1");
  }
}

TEST(Translation, ConcatHadADefaultAxis) {
  EXPECT_EQ(output_shape(OneNode(1, "Concat", {{2, 3}, {2, 4}}).load()), "2 x 7");
}

TEST(Translation, SplitSizesAndCounts) {
  OneNode sizes(11, "Split", {{6, 2}}, "", 2);
  set_integers(sizes.node(), "split", {2, 4});
  const Graph graph = sizes.load();
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "2 x 2");
  EXPECT_EQ(shape_of(graph, graph.outputs[1]), "4 x 2");
  for (const int opset : {2, 13}) {
    const Graph equal = OneNode(opset, "Split", {{6, 2}}, "", 3).load();
    EXPECT_EQ(shape_of(equal, equal.outputs[2]), "2 x 2");
  }
}

TEST(Translation, TileOfOneAxis) {
  ModelBuilder builder(1);
  builder.input("x", {2, 3}).integers("tiles", {1}, {4}).integers("axis", {1}, {1});
  builder.node("Tile", {"x", "tiles", "axis"}, {"y"});
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(graph::constant_elements(graph, first(graph, OpKind::Tile), 1),
            (std::vector<std::int64_t>{1, 4}));
}

TEST(Translation, UpsampleBecomesResize) {
  OneNode oldest(1, "Upsample", {{1, 3, 4, 4}});
  set_number(oldest.node(), "height_scale", 2);
  set_number(oldest.node(), "width_scale", 3);
  set_text(oldest.node(), "mode", "bilinear");
  const Graph graph = oldest.load();
  const graph::Node& resize = first(graph, OpKind::Resize);
  EXPECT_THAT(floats_of(graph, resize, 2), ElementsAre(1, 1, 2, 3));
  EXPECT_EQ(graph::text(resize, "mode"), "linear");
  EXPECT_EQ(graph::text(resize, "coordinate_transformation_mode"), "asymmetric");
  EXPECT_EQ(output_shape(graph), "1 x 3 x 8 x 12");

  OneNode seven(7, "Upsample", {{1, 3, 4, 4}});
  set_numbers(seven.node(), "scales", {1, 1, 2, 2});
  EXPECT_EQ(graph::text(first(seven.load(), OpKind::Resize), "nearest_mode"), "floor");

  ModelBuilder nine(9);
  nine.input("x", {1, 3, 4, 4}).floats("scales", {4}, {1, 1, 2, 2});
  nine.node("Upsample", {"x", "scales"}, {"y"});
  nine.output("y");
  EXPECT_EQ(output_shape(nine.load()), "1 x 3 x 8 x 8");
}

TEST(Translation, ResizeTenRoundsDownWhereItGrowsAndUpWhereItShrinks) {
  ModelBuilder builder(10);
  builder.input("x", {1, 1, 4, 4}).floats("scales", {4}, {1, 1, 0.5F, 2});
  builder.node("Resize", {"x", "scales"}, {"y"});
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(operators_of(graph), "Resize Resize");
  const auto order = graph.topological_order();
  EXPECT_EQ(graph::text(graph.node(order[0]), "nearest_mode"), "ceil");
  EXPECT_THAT(floats_of(graph, graph.node(order[0]), 2), ElementsAre(1, 1, 0.5F, 1));
  EXPECT_EQ(graph::text(graph.node(order[1]), "nearest_mode"), "floor");
  EXPECT_EQ(output_shape(graph), "1 x 1 x 2 x 8");
}

TEST(Translation, ResizeIgnoresEmptyInputs) {
  ModelBuilder builder(11);
  builder.input("x", {1, 1, 4, 4})
      .floats("roi", {0}, {})
      .floats("scales", {0}, {})
      .integers("sizes", {4}, {1, 1, 7, 9});
  auto& node = builder.node("Resize", {"x", "roi", "scales", "sizes"}, {"y"});
  set_text(node, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
  set_text(node, "nearest_mode", "floor");
  builder.output("y");
  const Graph graph = builder.load();
  const graph::Node& resize = first(graph, OpKind::Resize);
  EXPECT_FALSE(resize.inputs[1]);
  EXPECT_FALSE(resize.inputs[2]);
  EXPECT_EQ(graph::text(resize, "coordinate_transformation_mode"), "half_pixel");
  EXPECT_EQ(graph::text(resize, "nearest_mode"), "round_prefer_ceil");
  EXPECT_EQ(output_shape(graph), "1 x 1 x 7 x 9");
}

TEST(Translation, ConstantsInEveryForm) {
  ModelBuilder builder(13);
  const auto constant = [&](const std::string& name) -> onnx::NodeProto& {
    builder.output(name);
    return builder.node("Constant", {}, {name});
  };
  set(constant("integer"), "value_int", 7);
  set_integers(constant("integers"), "value_ints", {1, 2});
  set_number(constant("number"), "value_float", 0.5F);
  set_numbers(constant("numbers"), "value_floats", {1, 2, 3});
  set_text(constant("text"), "value_string", "hi");
  auto& texts = set(constant("texts"), "value_strings");
  texts.set_type(onnx::AttributeProto::STRINGS);
  texts.add_strings("a");
  auto& tensor = set(constant("tensor"), "value");
  tensor.set_type(onnx::AttributeProto::TENSOR);
  tensor.mutable_t()->set_data_type(onnx::TensorProto::INT32);
  tensor.mutable_t()->add_int32_data(9);
  auto& sparse = set(constant("sparse"), "sparse_value");
  sparse.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  auto& proto = *sparse.mutable_sparse_tensor();
  proto.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  proto.mutable_values()->add_dims(1);
  proto.mutable_values()->add_float_data(4);
  proto.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  proto.mutable_indices()->add_dims(1);
  proto.mutable_indices()->add_int64_data(2);
  proto.add_dims(3);

  const Graph graph = builder.load();
  EXPECT_EQ(graph.node_count(), 0U);
  const auto at = [&](std::size_t i) { return graph.value(graph.outputs[i]).constant.value(); };
  EXPECT_EQ(at(0).dtype(), DType::I64);
  EXPECT_EQ(at(0).rank(), 0);
  EXPECT_THAT(at(1).to_integers(), ElementsAre(1, 2));
  EXPECT_EQ(at(2).as<float>()[0], 0.5F);
  EXPECT_EQ(at(3).extents(), Extents{3});
  EXPECT_EQ(at(4).as<std::string>()[0], "hi");
  EXPECT_EQ(at(5).extents(), Extents{1});
  EXPECT_EQ(at(6).dtype(), DType::I32);
  EXPECT_EQ(at(7).as<float>()[2], 4);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "integer");
}

// --- networks

TEST(Translation, SoftmaxOverFlattenedAxes) {
  OneNode model(11, "Softmax", {{"n", 3, 4}});
  const Graph graph = model.load();
  EXPECT_EQ(operators_of(graph), "Flatten Softmax Shape Reshape");
  EXPECT_EQ(output_shape(graph), "n x 3 x 4");
  EXPECT_EQ(graph::integer(first(graph, OpKind::Flatten), "axis"), 1);
  // One axis, or more of which only the first is longer than 1, need no flattening.
  OneNode last(11, "Softmax", {{"n", 3, 4}});
  set(last.node(), "axis", -1);
  EXPECT_EQ(operators_of(last.load()), "Softmax");
  const Graph ones = OneNode(9, "LogSoftmax", {{"n", 3, 1, 1}}).load();
  EXPECT_EQ(operators_of(ones), "LogSoftmax");
  EXPECT_EQ(graph::integer(first(ones, OpKind::LogSoftmax), "axis"), 1);
  EXPECT_EQ(operators_of(OneNode(13, "Softmax", {{"n", 3, 4}}).load()), "Softmax");
}

TEST(Translation, BatchNormalization) {
  const std::vector<std::vector<testing::DimSpec>> shapes = {{"n", 3, 4, 4}, {3}, {3}, {3}, {3}};
  OneNode first_form(1, "BatchNormalization", shapes);
  set_integers(first_form.node(), "consumed_inputs", {0, 0, 0, 1, 1});
  set(first_form.node(), "is_test", 1);
  EXPECT_EQ(operators_of(first_form.load()), "BatchNormalization");

  OneNode per_element(7, "BatchNormalization", {{"n", 3, 4}, {3, 4}, {3, 4}, {3, 4}, {3, 4}});
  set(per_element.node(), "spatial", 0);
  const Graph graph = per_element.load();
  EXPECT_EQ(operators_of(graph), "Sub Add Sqrt Div Mul Add Identity");
  EXPECT_EQ(output_shape(graph), "n x 3 x 4");

  OneNode training(15, "BatchNormalization", shapes, "", 3);
  set(training.node(), "training_mode", 1);
  const Graph trained = training.load();
  EXPECT_EQ(shape_of(trained, trained.outputs[0]), "n x 3 x 4 x 4");
  EXPECT_EQ(shape_of(trained, trained.outputs[1]), "3");
  EXPECT_EQ(shape_of(trained, trained.outputs[2]), "3");
  EXPECT_THAT(integers_of(trained, first(trained, OpKind::ReduceMean), 1), ElementsAre(0, 2, 3));

  EXPECT_THAT(failure(OneNode(9, "BatchNormalization", shapes, "", 3).builder), HasSubstr("training"));
}

TEST(Translation, GroupNormalizationScalesWereOfGroups) {
  OneNode model(18, "GroupNormalization", {{"n", 6, 4}, {2}, {2}});
  set(model.node(), "num_groups", 2);
  const Graph graph = model.load();
  EXPECT_EQ(shape_of(graph, first(graph, OpKind::GroupNormalization).inputs[1]), "6");
  OneNode unknown(18, "GroupNormalization", {{"n", "c", 4}, {2}, {2}});
  set(unknown.node(), "num_groups", 2);
  const Graph dynamic = unknown.load();
  EXPECT_EQ(shape_of(dynamic, first(dynamic, OpKind::GroupNormalization).inputs[1]), "c");
  OneNode uneven(18, "GroupNormalization", {{"n", 5, 4}, {2}, {2}});
  set(uneven.node(), "num_groups", 2);
  EXPECT_THAT(failure(uneven.builder), HasSubstr("5 channels"));
}

TEST(Translation, LpPoolingHadAFloat) {
  OneNode model(1, "GlobalLpPool", {{1, 2, 3, 3}});
  set_number(model.node(), "p", 3);
  EXPECT_EQ(graph::integer(first(model.load(), OpKind::GlobalLpPool), "p"), 3);
  OneNode fraction(1, "GlobalLpPool", {{1, 2, 3, 3}});
  set_number(fraction.node(), "p", 1.5F);
  EXPECT_THAT(failure(fraction.builder), HasSubstr("1.5"));
}

TEST(Translation, GemmBroadcastIsImplied) {
  OneNode model(6, "Gemm", {{2, 3}, {3, 4}, {4}});
  set(model.node(), "broadcast", 1);
  EXPECT_EQ(output_shape(model.load()), "2 x 4");
}

TEST(Translation, ExperimentalOperators) {
  OneNode scaler(8, "ImageScaler", {{1, 3, 4, 4}});
  set_number(scaler.node(), "scale", 0.5F);
  set_numbers(scaler.node(), "bias", {1, 2, 3});
  const Graph graph = scaler.load();
  EXPECT_EQ(operators_of(graph), "Mul Unsqueeze Add");
  EXPECT_EQ(output_shape(graph), "1 x 3 x 4 x 4");
  OneNode crop(7, "Crop", {{1, 3, 10, 10}});
  set_integers(crop.node(), "border", {1, 2, 3, 4});  // left, top, right, bottom
  EXPECT_EQ(output_shape(crop.load()), "1 x 3 x 4 x 6");
  OneNode affine(7, "Affine", {{2}});
  set_number(affine.node(), "alpha", 2);
  EXPECT_EQ(operators_of(affine.load()), "Mul Add");
}

// --- quantisation

TEST(Translation, QuantizedTypesAreNumbersOfDTypes) {
  OneNode model(21, "QuantizeLinear", {{2, 3}, {}});
  set(model.node(), "output_dtype", onnx::TensorProto::INT8);
  const Graph graph = model.load();
  EXPECT_EQ(graph.value(graph.outputs[0]).dtype, DType::I8);
}

TEST(Translation, QLinearConvIsAnIntegerConvolution) {
  ModelBuilder builder(10);
  builder.input("x", {1, 2, 5, 5}, onnx::TensorProto::UINT8)
      .input("w", {4, 2, 3, 3}, onnx::TensorProto::INT8);
  builder.input("xs", {})
      .input("xz", {}, onnx::TensorProto::UINT8)
      .input("ws", {4})
      .input("wz", {4}, onnx::TensorProto::INT8);
  builder.input("ys", {1})
      .input("yz", {1}, onnx::TensorProto::UINT8)
      .input("b", {4}, onnx::TensorProto::INT32);
  builder.node("QLinearConv", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"}, {"y"});
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(output_shape(graph), "1 x 4 x 3 x 3");
  EXPECT_EQ(graph.value(graph.outputs[0]).dtype, DType::U8);
  // A vector of one zero point is a scalar.
  EXPECT_EQ(shape_of(graph, first(graph, OpKind::QuantizeLinear).inputs[2]), "");
  EXPECT_EQ(shape_of(graph, first(graph, OpKind::ConvInteger).outputs[0]), "1 x 4 x 3 x 3");
}

TEST(Translation, QLinearMatMulHasScalesOfRowsAndColumns) {
  ModelBuilder builder(10);
  builder.input("a", {2, 3}, onnx::TensorProto::UINT8)
      .input("as", {2})
      .input("az", {2}, onnx::TensorProto::UINT8);
  builder.input("b", {3, 4}, onnx::TensorProto::INT8)
      .input("bs", {4})
      .input("bz", {4}, onnx::TensorProto::INT8);
  builder.input("ys", {}).input("yz", {}, onnx::TensorProto::UINT8);
  builder.node("QLinearMatMul", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"y"});
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(output_shape(graph), "2 x 4");
  EXPECT_EQ(shape_of(graph, first(graph, OpKind::Mul).outputs[0]), "2 x 4");
}

// --- com.microsoft

TEST(Translation, MicrosoftActivations) {
  const auto operators = [](const std::string& op, const std::vector<std::vector<testing::DimSpec>>& shapes) {
    return operators_of(OneNode(17, op, shapes, "com.microsoft").load());
  };
  EXPECT_EQ(operators("Gelu", {{2, 3}}), "Gelu");
  EXPECT_EQ(operators("FastGelu", {{2, 3}}), "Gelu");
  EXPECT_EQ(operators("FastGelu", {{2, 3}, {3}}), "Add Gelu");
  EXPECT_EQ(operators("BiasGelu", {{2, 3}, {3}}), "Add Gelu");
  EXPECT_EQ(operators("QuickGelu", {{2, 3}}), "Swish");
  const Graph graph = OneNode(17, "FastGelu", {{2, 3}}, "com.microsoft").load();
  EXPECT_EQ(graph::text(first(graph, OpKind::Gelu), "approximate"), "tanh");
}

TEST(Translation, SkipLayerNormalization) {
  const Graph graph =
      OneNode(17, "SkipLayerNormalization", {{2, 3, 8}, {2, 3, 8}, {8}, {8}, {8}}, "com.microsoft").load();
  EXPECT_EQ(operators_of(graph), "Add Add LayerNormalization");
  ModelBuilder builder(17, "com.microsoft");
  builder.input("x", {2, 8}).input("s", {2, 8}).input("g", {8});
  builder.node("SkipSimplifiedLayerNormalization", {"x", "s", "g"}, {"y", "", "", "sum"}, "com.microsoft");
  builder.output("y").output("sum");
  const Graph simplified = builder.load();
  EXPECT_EQ(operators_of(simplified), "Add RMSNormalization");
  EXPECT_EQ(simplified.value(simplified.outputs[1]).name, "sum");
}

TEST(Translation, FusedOperatorsComeApart) {
  OneNode conv(17, "FusedConv", {{1, 2, 5, 5}, {4, 2, 3, 3}, {4}}, "com.microsoft");
  set_text(conv.node(), "activation", "LeakyRelu");
  set_numbers(conv.node(), "activation_params", {0.5F});
  const Graph graph = conv.load();
  EXPECT_EQ(operators_of(graph), "Conv LeakyRelu");
  EXPECT_EQ(graph::number(first(graph, OpKind::LeakyRelu), "alpha"), 0.5);

  OneNode gemm(17, "FusedGemm", {{2, 3}, {3, 4}, {4}}, "com.microsoft");
  set_text(gemm.node(), "activation", "Relu");
  EXPECT_EQ(operators_of(gemm.load()), "Gemm Relu");

  OneNode matmul(17, "FusedMatMul", {{5, 6, 2, 3}, {6, 5, 4, 3}}, "com.microsoft");
  set(matmul.node(), "transB", 1);
  set_number(matmul.node(), "alpha", 0.5F);
  EXPECT_THAT(failure(matmul.builder), ::testing::Not("loaded"));  // 5 x 6 and 6 x 5 batches
  OneNode right(17, "FusedMatMul", {{5, 6, 2, 3}, {5, 6, 4, 3}}, "com.microsoft");
  set(right.node(), "transB", 1);
  set_number(right.node(), "alpha", 0.5F);
  const Graph product = right.load();
  EXPECT_EQ(operators_of(product), "Transpose MatMul Mul");
  EXPECT_EQ(output_shape(product), "5 x 6 x 2 x 4");
  // transBatchA: the first axis is the row, the batch is behind it.
  OneNode batch(17, "FusedMatMul", {{2, 5, 6, 3}, {5, 6, 3, 4}}, "com.microsoft");
  set(batch.node(), "transBatchA", 1);
  EXPECT_EQ(output_shape(batch.load()), "5 x 6 x 2 x 4");
}

}  // namespace
}  // namespace kiln::frontend
