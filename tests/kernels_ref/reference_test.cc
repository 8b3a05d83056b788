#include "kernels_ref/reference.h"

#include "ir/graph/contract.h"
#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

TEST(Reference, EveryOperatorHasAKernel) {
  for (const graph::OpContract& contract : graph::contracts()) {
    EXPECT_NE(find(contract.kind), nullptr) << contract.name;
  }
}

graph::ValueId add_input(graph::Graph& graph, DType dtype, graph::Shape shape) {
  graph::Value value;
  value.name = "x";
  value.dtype = dtype;
  value.shape = std::move(shape);
  const graph::ValueId id = graph.add_value(std::move(value));
  graph.inputs.push_back(id);
  return id;
}

// A call of `op` on `x` with `output` as the caller's memory.
Tensor call_into(OpKind op, const Tensor& x, const Tensor& output) {
  graph::Graph graph;
  const graph::ValueId id = add_input(graph, x.dtype(), {x.extents().begin(), x.extents().end()});
  const std::vector<std::string> wanted = {"y"};
  const graph::NodeId node = graph.add_node(op, {id}, {}, "node", wanted);
  const Datum given(x);
  const Datum* inputs[] = {&given};
  Call call{.node = graph.node(node), .inputs = inputs, .outputs = {}};
  if (output.data() != nullptr) call.outputs = {output};
  find(op)(call);
  return call.outputs[0].tensor();
}

TEST(Reference, FillsMemoryOfTheCallerWhereItFits) {
  const Tensor x = tensor({2, 3}, {-1, 2, -3, 4, -5, 6});
  for (const OpKind op : {OpKind::Relu, OpKind::Identity, OpKind::Softmax}) {
    Tensor memory(DType::F32, {2, 3});
    for (float& element : memory.as_mutable<float>()) element = 77;
    const Tensor y = call_into(op, x, memory);
    EXPECT_EQ(y.data(), memory.data());
    EXPECT_EQ(y, call_into(op, x, Tensor()));
    EXPECT_NE(call_into(op, x, Tensor(DType::F32, {3, 2})).extents(), (Extents{3, 2}));
    EXPECT_EQ(call_into(op, x, Tensor(DType::F64, {2, 3})).dtype(), DType::F32);
  }
  const Tensor half = tensor<Float16>({2, 2}, {1, 2, 3, 4}), memory(DType::F16, {2, 2});
  EXPECT_EQ(call_into(OpKind::Softmax, half, memory).data(), memory.data());
  // In place.
  EXPECT_EQ(call_into(OpKind::Neg, half, half), tensor<Float16>({2, 2}, {-1, -2, -3, -4}));
}

// y = cast_f32(cast_i32(x * 3)) + c, with a constant c.
TEST(Reference, RunsGraphsInF64) {
  graph::Graph graph;
  const graph::ValueId x = add_input(graph, DType::F32, {2});
  const graph::ValueId third = graph.add_constant(tensor({}, {1.0f / 3.0f}));
  const graph::ValueId product = graph.add(OpKind::Mul, {x, third});
  const graph::ValueId whole =
      graph.add(OpKind::Cast, {product}, {{"to", std::int64_t{static_cast<int>(DType::I32)}}});
  const graph::ValueId back =
      graph.add(OpKind::Cast, {whole}, {{"to", std::int64_t{static_cast<int>(DType::F32)}}});
  const graph::ValueId sum = graph.add(OpKind::Add, {back, product});
  graph.outputs = {sum, whole, x};
  const std::vector<Tensor> inputs = {tensor({2}, {10, -7})};
  const std::vector<Tensor> narrow = evaluate(graph, inputs), wide = evaluate(graph, inputs, {.f64 = true});
  EXPECT_EQ(narrow[0].dtype(), DType::F32);
  EXPECT_EQ(wide[0].dtype(), DType::F64);
  EXPECT_EQ(wide[1].dtype(), DType::I32);
  EXPECT_EQ(wide[0].as<double>()[0], 3 + 10 * static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(wide[0].as<double>()[1], -2 + -7 * static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(wide[2].dtype(), DType::F64);
  EXPECT_EQ(narrow[2], inputs[0]);
}

// The products of an f16 graph are not rounded in the f64 run, a Cast to bf16 rounds nothing.
TEST(Reference, RunsGraphsInF64FromSixteenBits) {
  graph::Graph graph;
  const graph::ValueId x = add_input(graph, DType::F16, {2});
  const graph::ValueId product = graph.add(OpKind::Mul, {x, x});
  const graph::ValueId narrower =
      graph.add(OpKind::Cast, {product}, {{"to", std::int64_t{static_cast<int>(DType::BF16)}}});
  graph.outputs = {product, narrower};
  const double third = 1365.0 / 4096, big = 32800;  // numbers of f16; the square of the second is not
  const std::vector<Tensor> inputs = {tensor<Float16>({2}, {third, big})};
  const std::vector<Tensor> wide = evaluate(graph, inputs, {.f64 = true});
  for (const Tensor& y : wide) {
    ASSERT_EQ(y.dtype(), DType::F64);
    EXPECT_EQ(y.as<double>()[0], third * third);
    EXPECT_EQ(y.as<double>()[1], big * big);
  }
}

TEST(Reference, ErrorsNameNodeAndOperator) {
  try {
    run(OpKind::Div, {integers({1}), integers({0})});
    FAIL();
  } catch (const Error& error) {
    ASSERT_EQ(error.context().size(), 2u);
    EXPECT_EQ(error.context()[0], (std::pair<std::string, std::string>("node", "node")));
    EXPECT_EQ(error.context()[1], (std::pair<std::string, std::string>("op", "Div")));
  }
}

}  // namespace
}  // namespace kiln::reference
