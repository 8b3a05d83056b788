#include "frontend/onnx/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "frontend/onnx/operators.h"
#include "ir/graph/contract.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using graph::Graph;
using graph::OpKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::first;
using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::operators_of;
using testing::shape_of;

// The message of the caller's error that loading throws, or "loaded".
std::string failure(const ModelBuilder& builder, const LoadOptions& options = {}) {
  try {
    builder.load(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    return error.what();
  }
  return "loaded";
}

ModelBuilder relu_chain(int length) {
  ModelBuilder builder(17);
  builder.input("x", {"batch", 4});
  std::string previous = "x";
  for (int i = 0; i < length; ++i) {
    const std::string next = "v" + std::to_string(i);
    builder.node("Relu", {previous}, {next}).set_name("relu" + std::to_string(i));
    previous = next;
  }
  builder.output(previous);
  return builder;
}

TEST(Loader, KeepsNamesTypesAndOrder) {
  ModelBuilder builder(17);
  builder.input("x", {"batch", 3}).floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.node("MatMul", {"x", "w"}, {"h"}).set_name("first");
  builder.node("Relu", {"h"}, {"y"}).set_name("second");
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(graph.name, "test");
  ASSERT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(graph.inputs[0]).dtype, DType::F32);
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "batch x 2");
  EXPECT_EQ(operators_of(graph), "MatMul Relu");
  EXPECT_EQ(first(graph, OpKind::MatMul).name, "first");
  EXPECT_EQ(first(graph, OpKind::Relu).name, "second");
  EXPECT_THAT(testing::floats_of(graph, first(graph, OpKind::MatMul), 1), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Loader, GivesOneSymbolToEachName) {
  ModelBuilder builder(17);
  builder.input("a", {"n", 1, "", "?"}).input("b", {"n", 7, "", "?"});
  builder.node("Relu", {"a"}, {"y"});
  builder.node("Relu", {"b"}, {"z"});
  builder.output("y").output("z");
  const Graph graph = builder.load();
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "n x 1 x a.2 x a.3");
  EXPECT_EQ(shape_of(graph, graph.outputs[1]), "n x 7 x b.2 x b.3");
  ASSERT_EQ(graph.symbols.size(), 5U);
  EXPECT_EQ(graph.symbols[0].source.value, graph.inputs[0]);
  EXPECT_EQ(graph.symbols[0].source.index, 0);
  EXPECT_EQ(graph.symbols[3].source.value, graph.inputs[1]);
  EXPECT_EQ(graph.symbols[3].source.index, 2);
}

TEST(Loader, MakesUpNamesThatAreFree) {
  ModelBuilder builder(17);
  builder.input("x", {"", "x.0"}).output("x");
  const Graph graph = builder.load();
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "x.0_ x x.0");
}

TEST(Loader, HidesDimsAndRank) {
  const ModelBuilder builder = relu_chain(1);
  LoadOptions options;
  options.hide_dims = true;
  const Graph dims = builder.load(options);
  EXPECT_EQ(shape_of(dims, dims.outputs[0]), "x.0 x x.1");
  options.hide_rank = true;
  const Graph rank = builder.load(options);
  EXPECT_EQ(shape_of(rank, rank.outputs[0]), "?");
}

TEST(Loader, TreatsInitializedInputsAsConstantsUnlessReplaced) {
  ModelBuilder builder(7);
  builder.model.set_ir_version(3);
  builder.input("w", {2}).input("x", {2}).floats("w", {2}, {1, 2});
  builder.node("Add", {"x", "w"}, {"y"});
  builder.output("y");
  EXPECT_EQ(builder.load().inputs.size(), 1U);
  LoadOptions options;
  options.replaced_defaults = {"w"};
  const Graph graph = builder.load(options);
  ASSERT_EQ(graph.inputs.size(), 2U);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(graph.inputs[1]).name, "w");
  EXPECT_FALSE(graph.value(graph.inputs[1]).constant);
}

TEST(Loader, ComparesInitializedInputsWithTheirInitializers) {
  ModelBuilder builder(18);
  builder.input("x", {2}).input("w", {"n", 3}, onnx::TensorProto::INT64).floats("w", {2}, {1, 2});
  builder.node("Add", {"x", "w"}, {"y"});
  builder.output("y");
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("'w'"), HasSubstr("declared as i64"), HasSubstr("f32")));
  builder.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::FLOAT);
  std::vector<std::string> warnings;
  LoadOptions options;
  options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  EXPECT_EQ(shape_of(builder.load(options), builder.load().outputs[0]), "2");
  EXPECT_THAT(warnings, ElementsAre("input w is declared as [n, 3], but its default value is 2"));
  builder.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_map_type();
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("'w'"), HasSubstr("no tensor"), HasSubstr("f32 2")));
}

TEST(Loader, WarnsOfANewerFormat) {
  ModelBuilder builder = relu_chain(1);
  std::vector<std::string> warnings;
  LoadOptions options;
  options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  for (const std::int64_t version : {std::int64_t{1}, std::int64_t{13}, INT64_MIN}) {
    builder.model.set_ir_version(version);
    builder.load(options);
  }
  EXPECT_THAT(warnings, ElementsAre());
  builder.model.set_ir_version(999);
  builder.load(options);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("version 999"), HasSubstr("the newest known is 13"))));
}

TEST(Loader, TakesOneVersionOfEachDomain) {
  ModelBuilder builder = relu_chain(1);
  builder.import_opset("ai.onnx", 17);  // the same domain as ""
  EXPECT_EQ(operators_of(builder.load()), "Relu");
  builder.import_opset("ai.onnx", 18);
  EXPECT_THAT(failure(builder), HasSubstr("opsets 17 and 18 of ai.onnx"));
}

TEST(Loader, TurnsInputsIntoConstants) {
  const ModelBuilder builder = relu_chain(1);
  LoadOptions options;
  options.constant_inputs["x"] = Tensor(DType::F32, {3, 4});
  const Graph graph = builder.load(options);
  EXPECT_TRUE(graph.inputs.empty());
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "3 x 4");
  options.constant_inputs["x"] = Tensor(DType::F64, {3, 4});
  EXPECT_THAT(failure(builder, options), AllOf(HasSubstr("'x'"), HasSubstr("f32"), HasSubstr("f64")));
  options.constant_inputs.clear();
  options.constant_inputs["nothing"] = Tensor(DType::F32, {});
  EXPECT_THAT(failure(builder, options), HasSubstr("no input 'nothing'"));
}

TEST(Loader, SortsNodes) {
  ModelBuilder builder(17);
  builder.input("x", {2});
  builder.node("Relu", {"b"}, {"y"});
  builder.node("Exp", {"a"}, {"b"});
  builder.node("Abs", {"x"}, {"a"});
  builder.output("y");
  EXPECT_EQ(operators_of(builder.load()), "Abs Exp Relu");
}

TEST(Loader, AcceptsOutputsThatAreInputsOrConstants) {
  ModelBuilder builder(17);
  builder.input("x", {2}).floats("c", {1}, {3}).output("x").output("c");
  const Graph graph = builder.load();
  EXPECT_EQ(graph.outputs[0], graph.inputs[0]);
  EXPECT_EQ(graph.value(graph.outputs[1]).constant->as<float>()[0], 3);
}

TEST(Loader, LetsInferredShapesWin) {
  ModelBuilder builder = relu_chain(1);
  auto* declared = builder.model.mutable_graph()->mutable_output(0);
  ModelBuilder::set_type(*declared, "v0", {99}, onnx::TensorProto::FLOAT);
  ModelBuilder::set_type(*builder.model.mutable_graph()->add_value_info(), "v0", {1, 2, 3},
                         onnx::TensorProto::FLOAT);
  const Graph graph = builder.load();
  EXPECT_EQ(shape_of(graph, graph.outputs[0]), "batch x 4");
}

TEST(Loader, LeavesAbsentInputsAndOutputsOut) {
  ModelBuilder builder(13);
  builder.input("x", {2}).floats("high", {}, {6});
  builder.node("Clip", {"x", "", "high"}, {"c"});
  builder.node("Dropout", {"c", "", ""}, {"y", ""});
  builder.output("y");
  const Graph graph = builder.load();
  const graph::Node& clip = first(graph, OpKind::Clip);
  ASSERT_EQ(clip.inputs.size(), 3U);
  EXPECT_FALSE(clip.inputs[1]);
  EXPECT_TRUE(clip.inputs[2]);
}

TEST(Loader, NamesWhatIsWrong) {
  {
    ModelBuilder builder(17);
    builder.input("x", {2});
    builder.node("Add", {"x", "ghost"}, {"y"}).set_name("adder");
    builder.output("y");
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("'ghost'"), HasSubstr("adder"), HasSubstr("Add")));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2}).output("ghost");
    EXPECT_THAT(failure(builder), HasSubstr("'ghost'"));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2});
    builder.node("Add", {"x", "b"}, {"a"}).set_name("one");
    builder.node("Relu", {"a"}, {"b"}).set_name("two");
    builder.node("Relu", {"b"}, {"c"}).set_name("three");
    builder.output("c");
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("cycle"), ::testing::ContainsRegex("node=(one|two)"),
                                        ::testing::ContainsRegex("'[ab]'")));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2});
    builder.node("Relu", {"x"}, {"y"}).set_name("one");
    builder.node("Exp", {"x"}, {"y"}).set_name("two");
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("'y'"), HasSubstr("node=two"), HasSubstr("twice")));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2});
    builder.node("Relu", {"x"}, {"x"});
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("'x'"), HasSubstr("twice")));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2}).input("x", {2});
    EXPECT_THAT(failure(builder), HasSubstr("'x' is listed twice"));
  }
  {
    ModelBuilder builder(17);
    builder.floats("w", {1}, {1}).floats("w", {1}, {1});
    EXPECT_THAT(failure(builder), HasSubstr("'w' is defined twice"));
  }
  {
    ModelBuilder builder(17, "ai.onnx.ml", 3);
    builder.input("x", {2, 3});
    builder.node("Forest", {"x"}, {"y"}, "ai.onnx.ml").set_name("trees");
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("Forest"), HasSubstr("ai.onnx.ml"), HasSubstr("version 3"),
                                        HasSubstr("trees")));
  }
  {
    ModelBuilder builder(17);
    builder.input("x", {2, 3});
    builder.node("Thing", {"x"}, {"y"}, "acme");
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("Thing"), HasSubstr("'acme'")));
  }
  {
    ModelBuilder builder(12);
    builder.input("x", {2, 3});
    builder.node("HardSwish", {"x"}, {"y"});
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("HardSwish"), HasSubstr("14"), HasSubstr("12")));
  }
  EXPECT_THAT(failure(ModelBuilder(29)), AllOf(HasSubstr("29"), HasSubstr("28")));
}

// Editing tools append such overrides. ONNX Runtime reads them so, wherever the readers stand.
TEST(Loader, TheLastConstantOfANameStands) {
  ModelBuilder builder(17);
  builder.input("x", {2});
  const auto constant = [&](float value) {
    auto& attribute = testing::set(builder.node("Constant", {}, {"c"}), "value_float");
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  };
  constant(1);
  builder.node("Add", {"x", "c"}, {"y"});
  constant(2);
  constant(3);
  builder.output("y").output("c");
  const Graph graph = builder.load();
  ASSERT_EQ(graph.outputs.size(), 2U);
  const graph::Value& c = graph.value(graph.outputs[1]);
  ASSERT_TRUE(c.constant);
  EXPECT_EQ(c.constant->as<float>()[0], 3);
  EXPECT_EQ(first(graph, OpKind::Add).inputs[1], graph.outputs[1]);
  builder.node("Relu", {"x"}, {"c"});
  EXPECT_THAT(failure(builder), HasSubstr("'c' is defined twice"));
}

TEST(Loader, RefusesInputsOfOtherTypes) {
  ModelBuilder builder(17);
  auto* input = builder.model.mutable_graph()->add_input();
  input->set_name("s");
  input->mutable_type()->mutable_sparse_tensor_type()->set_elem_type(1);
  EXPECT_THAT(failure(builder), HasSubstr("'s'"));
  ModelBuilder type(17);
  type.input("x", {1}, 77);
  EXPECT_THAT(failure(type), AllOf(HasSubstr("'x'"), HasSubstr("77")));
}

TEST(Loader, RefusesNodesThatLackAGraph) {
  ModelBuilder builder(17);
  builder.input("c", {}, onnx::TensorProto::BOOL);
  auto& node = builder.node("If", {"c"}, {"y"});
  node.set_name("branch");
  auto& then_branch = testing::set(node, "then_branch");
  then_branch.set_type(onnx::AttributeProto::GRAPH);
  then_branch.mutable_g()->set_name("then");
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("If"), HasSubstr("branch")));
}

TEST(Loader, LoadsTenThousandNodes) {
  const Graph graph = relu_chain(10000).load();
  EXPECT_EQ(graph.node_count(), 10000U);
  LoadOptions options;
  options.limits.nodes = 9999;
  EXPECT_THAT(failure(relu_chain(10000), options), HasSubstr("9999 nodes"));
}

// --- functions

onnx::FunctionProto& add_function(ModelBuilder& builder, const std::string& name,
                                  const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs) {
  auto& function = *builder.model.add_functions();
  function.set_name(name);
  function.set_domain("local");
  for (const auto& input : inputs) function.add_input(input);
  for (const auto& output : outputs) function.add_output(output);
  auto* import = function.add_opset_import();
  import->set_version(17);
  auto* local = function.add_opset_import();
  local->set_domain("local");
  local->set_version(1);
  return function;
}

TEST(Functions, AreExpanded) {
  ModelBuilder builder(17, "local");
  auto& function = add_function(builder, "Bend", {"a", "b"}, {"r"});
  function.add_attribute("alpha");
  auto& leaky = ModelBuilder::add_node(*function.mutable_node(), "LeakyRelu", {"a"}, {"t"});
  auto& alpha = testing::set(leaky, "alpha");
  alpha.set_ref_attr_name("alpha");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  ModelBuilder::add_node(*function.mutable_node(), "Add", {"t", "b"}, {"r"});

  builder.input("x", {2}).input("b", {2});
  auto& call = builder.node("Bend", {"x", "b"}, {"h"}, "local");
  call.set_name("call");
  testing::set_number(call, "alpha", 0.25F);
  builder.node("Bend", {"h", "x"}, {"y"}, "local").set_name("again");
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(operators_of(graph), "LeakyRelu Add LeakyRelu Add");
  const auto order = graph.topological_order();
  EXPECT_EQ(graph::number(graph.node(order[0]), "alpha"), 0.25);
  EXPECT_FLOAT_EQ(static_cast<float>(graph::number(graph.node(order[2]), "alpha")), 0.01F);  // not given
  EXPECT_EQ(graph.node(order[0]).name, "call/LeakyRelu_0");
  EXPECT_EQ(graph.value(graph.node(order[0]).outputs[0]).name, "call/t");
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
}

// What a function passes on, or gives twice, has the names of the model's outputs.
TEST(Functions, MayPassInputsOn) {
  ModelBuilder builder(17, "local");
  auto& function = *builder.model.add_functions();
  function.set_name("Both");
  function.set_domain("local");
  function.add_input("a");
  for (const char* output : {"a", "n", "n"}) function.add_output(output);
  function.add_opset_import()->set_version(17);
  ModelBuilder::add_node(*function.mutable_node(), "Neg", {"a"}, {"n"});
  builder.input("x", {2});
  builder.node("Both", {"x"}, {"y", "z", "w"}, "local");
  builder.output("y").output("z").output("w").output("x");
  const Graph graph = builder.load();
  std::vector<std::string> names;
  for (const graph::ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  EXPECT_THAT(names, ElementsAre("y", "z", "w", "x"));
}

TEST(Functions, HaveDefaultAttributes) {
  ModelBuilder builder(17, "local");
  auto& function = add_function(builder, "Bend", {"a"}, {"r"});
  auto& leaky = ModelBuilder::add_node(*function.mutable_node(), "LeakyRelu", {"a"}, {"r"});
  auto& alpha = testing::set(leaky, "alpha");
  alpha.set_ref_attr_name("slope");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  onnx::AttributeProto absent;
  absent.set_name("slope");
  absent.set_type(onnx::AttributeProto::FLOAT);
  absent.set_f(0.5F);
  function.mutable_unknown_fields()->AddLengthDelimited(11, absent.SerializeAsString());
  builder.input("x", {2});
  builder.node("Bend", {"x"}, {"y"}, "local");
  builder.output("y");
  const Graph graph = builder.load();
  EXPECT_EQ(graph::number(first(graph, OpKind::LeakyRelu), "alpha"), 0.5);
}

TEST(Functions, AreBounded) {
  {
    ModelBuilder builder(17, "local");
    auto& function = add_function(builder, "Endless", {"a"}, {"r"});
    ModelBuilder::add_node(*function.mutable_node(), "Endless", {"a"}, {"r"}, "local");
    builder.input("x", {2});
    builder.node("Endless", {"x"}, {"y"}, "local");
    EXPECT_THAT(failure(builder), HasSubstr("nest deeper"));
  }
  {
    // Each of 60 functions calls the one before twice: 2^60 nodes.
    ModelBuilder builder(17, "local");
    for (int i = 0; i < 60; ++i) {
      auto& function = add_function(builder, "f" + std::to_string(i), {"a"}, {"r"});
      const std::string inner = i == 0 ? "Relu" : "f" + std::to_string(i - 1);
      const std::string domain = i == 0 ? "" : "local";
      ModelBuilder::add_node(*function.mutable_node(), inner, {"a"}, {"t"}, domain);
      ModelBuilder::add_node(*function.mutable_node(), inner, {"t"}, {"r"}, domain);
    }
    builder.input("x", {2});
    builder.node("f59", {"x"}, {"y"}, "local");
    LoadOptions options;
    options.limits.nodes = 10000;
    EXPECT_THAT(failure(builder, options), HasSubstr("10000 nodes"));
  }
}

TEST(Functions, MustFitTheirCalls) {
  ModelBuilder builder(17, "local");
  auto& function = add_function(builder, "One", {"a"}, {"r"});
  ModelBuilder::add_node(*function.mutable_node(), "Relu", {"a"}, {"other"});
  builder.input("x", {2});
  builder.node("One", {"x"}, {"y"}, "local");
  EXPECT_THAT(failure(builder), HasSubstr("does not define its output 'r'"));
  builder.model.mutable_graph()->mutable_node(0)->add_input("x");
  EXPECT_THAT(failure(builder), HasSubstr("1 inputs and 1 outputs, the call has 2 and 1"));
}

// --- the table

TEST(Operators, HaveVersionRangesThatDoNotOverlap) {
  for (const Operator& a : operators()) {
    EXPECT_LE(a.since, a.until) << a.name;
    EXPECT_GE(a.since, 1) << a.name;
    for (const Operator& b : operators()) {
      if (&a == &b || a.name != b.name || a.domain != b.domain) continue;
      EXPECT_TRUE(a.until < b.since || b.until < a.since)
          << a.name << " from " << a.since << " and " << b.since;
    }
  }
}

TEST(Operators, CoverTheGraphAndNothingElse) {
  for (const graph::OpContract& contract : graph::contracts()) {
    if (contract.kind == OpKind::MapEntries) continue;  // what CastMap and DictVectorizer have in common
    EXPECT_NO_THROW(find_operator(contract.domain, contract.name, kNewestOpset)) << contract.name;
  }
  EXPECT_THROW(find_operator("ai.onnx", "Gelu", 19), Error);
  EXPECT_THROW(find_operator("ai.onnx.ml", "Gelu", 20), Error);
}

}  // namespace
}  // namespace kiln::frontend
