#include "ir/graph/contract.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

TEST(Contract, RowsAreConsistent) {
  std::set<std::string_view> names;
  for (const OpContract& op : contracts()) {
    EXPECT_EQ(&contract(op.kind), &op);
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(op_from_name(op.name), op.kind);
    EXPECT_TRUE(op.domain == "ai.onnx" || op.domain == "ai.onnx.ml" || op.domain == "com.microsoft")
        << op.name;
    EXPECT_FALSE(op.outputs.empty()) << op.name;
    for (const auto& operands : {op.inputs, op.outputs}) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        EXPECT_FALSE(operands[i].name.empty()) << op.name;
        const bool typed = operands[i].mixed ||
                           std::any_of(op.types.begin(), op.types.end(), [&](const TypeConstraint& type) {
                             return type.letter == operands[i].types;
                           });
        EXPECT_TRUE(typed) << op.name << " " << operands[i].name;
        EXPECT_TRUE(!operands[i].variadic || i + 1 == operands.size()) << op.name;
      }
    }
    for (const auto& [input, output] : op.in_place) {
      EXPECT_LT(static_cast<std::size_t>(input), op.inputs.size()) << op.name;
      EXPECT_LT(static_cast<std::size_t>(output), op.outputs.size()) << op.name;
    }
  }
}

TEST(Contract, ReadsTheSignature) {
  const OpContract& clip = contract(OpKind::Clip);
  ASSERT_EQ(clip.inputs.size(), 3U);
  EXPECT_EQ(clip.inputs[0].name, "input");
  EXPECT_FALSE(clip.inputs[0].optional);
  EXPECT_TRUE(clip.inputs[2].optional);
  EXPECT_EQ(clip.types[0].allowed.size(), 12U);

  const OpContract& concat = contract(OpKind::Concat);
  EXPECT_TRUE(concat.inputs[0].variadic);
  EXPECT_TRUE(concat.attributes[0].required);

  const OpContract& scatter = contract(OpKind::ScatterND);
  ASSERT_EQ(scatter.in_place.size(), 1U);
  EXPECT_EQ(scatter.in_place[0], std::pair(0, 0));
  EXPECT_TRUE(contract(OpKind::Transpose).in_place.empty());
  EXPECT_EQ(contract(OpKind::Add).in_place.size(), 2U);
}

// Facts of the standard, one row per operator and version, where the file is present.
std::vector<std::map<std::string, std::string>> standard_rows() {
  const char* shared = std::getenv("KILN_SHARED");
  std::ifstream file(std::string(shared != nullptr ? shared : KILN_SOURCE_DIR "/../shared") +
                     "/onnx-ops.tsv");
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> cells;
    std::istringstream stream(line + "\t");
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    if (header.empty()) {
      header = cells;
      continue;
    }
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < std::min(header.size(), cells.size()); ++i) row[header[i]] = cells[i];
    if (row["newest"] == "1") rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> pieces(const std::string& text, const std::string& separator) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < text.size() && text != "-";) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return result;
}

// Types that the standard allows for an operand, without sequences and the like.
std::vector<DType> standard_types(const std::map<std::string, std::string>& row, const std::string& letter) {
  std::string list = letter;
  for (const std::string& constraint : pieces(row.at("type_constraints"), "; ")) {
    const std::size_t equals = constraint.find("={");
    if (constraint.substr(0, equals) != letter) continue;
    list = constraint.substr(equals + 2, constraint.size() - equals - 3);
  }
  std::vector<DType> types;
  for (const std::string& type : pieces(list, ",")) {
    if (const std::optional<DType> dtype = dtype_from_name(type == "bool" ? "i1" : type))
      types.push_back(*dtype);
  }
  return types;
}

void compare_operands(const OpContract& op, std::span<const OperandSpec> operands,
                      const std::map<std::string, std::string>& row, const std::string& column) {
  const std::vector<std::string> expected = pieces(row.at(column), ", ");
  ASSERT_EQ(operands.size(), expected.size()) << op.name;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t colon = expected[i].find(':');
    EXPECT_EQ(operands[i].name, expected[i].substr(0, colon)) << op.name;
    const std::string type = expected[i].substr(colon + 1);
    EXPECT_EQ(operands[i].optional, type.ends_with('?')) << op.name << " " << operands[i].name;
    EXPECT_EQ(operands[i].variadic, type.find('*') != std::string::npos)
        << op.name << " " << operands[i].name;
    for (const DType dtype : standard_types(row, type.substr(0, type.find_first_of("?*")))) {
      for (const TypeConstraint& constraint : op.types) {
        if (constraint.letter != operands[i].types) continue;
        EXPECT_NE(std::find(constraint.allowed.begin(), constraint.allowed.end(), dtype),
                  constraint.allowed.end())
            << op.name << " " << operands[i].name << " lacks " << name(dtype);
      }
    }
  }
}

void compare_attributes(const OpContract& op, const std::map<std::string, std::string>& row) {
  const std::vector<std::string> expected = pieces(row.at("attributes"), "; ");
  EXPECT_EQ(op.attributes.size(), expected.size()) << op.name;
  for (const std::string& text : expected) {
    const std::size_t colon = text.find(':'), space = text.find(' ');
    const auto spec =
        std::find_if(op.attributes.begin(), op.attributes.end(),
                     [&](const AttributeSpec& item) { return item.name == text.substr(0, colon); });
    ASSERT_NE(spec, op.attributes.end()) << op.name << " lacks " << text;
    const std::string rest = text.substr(space + 1);
    EXPECT_EQ(spec->required, rest == "required") << op.name << " " << text;
    EXPECT_EQ(spec->default_text.empty(), !rest.starts_with('=')) << op.name << " " << text;
    if (!rest.starts_with('=')) continue;
    // Numbers in the file are f32 in decimal; lists are written with commas.
    const Attribute value = default_value(*spec);
    if (const double* number = std::get_if<double>(&value)) {
      EXPECT_EQ(*number, static_cast<double>(std::stof(rest.substr(1)))) << op.name << " " << text;
    } else {
      std::string mine(spec->default_text);
      std::replace(mine.begin(), mine.end(), ' ', ',');
      if (spec->type == AttributeType::Text) mine = '"' + mine + '"';
      EXPECT_EQ(mine, rest.substr(1)) << op.name << " " << text;
    }
  }
}

TEST(Contract, AgreesWithTheStandard) {
  // Constant holds a tensor only; types in attributes are numbers of ours, and -1 where the standard has 0;
  // an RNN's activations are one for each direction; caches are not quantised; a search has decoders alone.
  const std::set<std::string_view> own_attributes = {"BitCast",
                                                     "Constant",
                                                     "DequantizeLinear",
                                                     "DynamicQuantizeLSTM",
                                                     "GreedySearch",
                                                     "GroupQueryAttention",
                                                     "LabelEncoder",
                                                     "MelWeightMatrix",
                                                     "Multinomial",
                                                     "Optional",
                                                     "QuantizeLinear",
                                                     "RNN",
                                                     "RandomNormal",
                                                     "RandomUniform",
                                                     "SVMClassifier",
                                                     "SVMRegressor",
                                                     "Scan",
                                                     "SequenceEmpty",
                                                     "TreeEnsemble"};
  // Labels and other element types are nodes of their own; the shapes of random tensors are inputs; strings
  // have no sum; captures follow the operands of control flow; maps tell the type of their values alone.
  const std::set<std::string_view> own_operands = {
      "Col2Im",        "GreedySearch",  "GroupQueryAttention", "If",   "Loop",        "RandomNormal",
      "RandomUniform", "SVMClassifier", "SVMRegressor",        "Scan", "SequenceMap", "ZipMap"};
  std::size_t compared = 0;
  for (const std::map<std::string, std::string>& row : standard_rows()) {
    const std::optional<OpKind> kind = op_from_name(row.at("op"));
    if (!kind || contract(*kind).domain != row.at("domain")) continue;
    const OpContract& op = contract(*kind);
    if (!own_operands.contains(op.name)) {
      compare_operands(op, op.inputs, row, "inputs");
      compare_operands(op, op.outputs, row, "outputs");
    }
    if (!own_attributes.contains(op.name)) compare_attributes(op, row);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "onnx-ops.tsv is not present";
  constexpr std::size_t kOwnOperators = 1;  // MapEntries
  EXPECT_EQ(compared + kOwnOperators, contracts().size());
}

TEST(AddNode, FillsInDefaults) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3});
  const ValueId y = graph.add(OpKind::LeakyRelu, {x});
  const Node& node = graph.node(graph.value(y).producer);
  EXPECT_EQ(number(node, "alpha"), static_cast<double>(0.01F));
  const ValueId softmax = graph.add(OpKind::Softmax, {y});
  EXPECT_EQ(integer(graph.node(graph.value(softmax).producer), "axis"), 1);
  const ValueId norm = graph.add(OpKind::MeanVarianceNormalization, {x});
  const std::span<const std::int64_t> axes = integers(graph.node(graph.value(norm).producer), "axes");
  EXPECT_EQ(std::vector<std::int64_t>(axes.begin(), axes.end()), (std::vector<std::int64_t>{0, 2, 3}));
}

TEST(AddNode, ListsEveryOperand) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3});
  const Node& clip = graph.node(graph.value(graph.add(OpKind::Clip, {x})).producer);
  ASSERT_EQ(clip.inputs.size(), 3U);
  EXPECT_FALSE(clip.inputs[2]);
  const std::vector<std::string> wanted = {"y", "", "deviation"};
  const ValueId scale = add_input(graph, DType::F32, Shape{3});
  const Node& norm = graph.node(graph.add_node(OpKind::LayerNormalization, {x, scale}, {}, "norm", wanted));
  ASSERT_EQ(norm.outputs.size(), 3U);
  EXPECT_FALSE(norm.outputs[1]);
  EXPECT_EQ(graph.value(norm.outputs[2]).name, "deviation");
  EXPECT_EQ(*graph.value(norm.outputs[2]).shape, (Shape{2, 1}));
}

TEST(AddNode, RefusesWhatTheContractForbids) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3}), i = add_input(graph, DType::I64, Shape{2, 3});
  const std::vector<std::string> one = {"y"}, two = {"y", "z"};
  const auto expect = [&](const std::function<void()>& action, std::string_view part) {
    const std::size_t values = graph.value_count(), nodes = graph.node_count();
    const std::string message = error_of(action);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(graph.value_count(), values);
    EXPECT_EQ(graph.node_count(), nodes);
  };
  expect([&] { graph.add_node(OpKind::Relu, {x}, {{"alpha", 1.0}}, "n1", one); },
         "unknown attribute \"alpha\"");
  expect([&] { graph.add_node(OpKind::Relu, {x}, {{"alpha", 1.0}}, "n1", one); }, "[node=n1, op=Relu]");
  expect([&] { graph.add_node(OpKind::LeakyRelu, {x}, {{"alpha", std::int64_t{1}}}, "n", one); },
         "attribute \"alpha\" is an integer, expected a float");
  expect([&] { graph.add_node(OpKind::Concat, {x}, {}, "n", one); }, "attribute \"axis\" is missing");
  expect([&] { graph.add_node(OpKind::Relu, {x, x}, {}, "n", one); }, "got 2 inputs, expected at most 1");
  expect([&] { graph.add_node(OpKind::Relu, {}, {}, "n", one); }, "input 0 (\"X\") is missing");
  expect([&] { graph.add_node(OpKind::Relu, {x}, {}, "n", two); }, "got 2 outputs, expected at most 1");
  expect([&] { graph.add_node(OpKind::Sqrt, {i}, {}, "n", one); },
         "has type i64, expected one of f16, bf16, f32, f64");
  expect([&] { graph.add_node(OpKind::Add, {x, i}, {}, "n", one); }, "has type i64, expected f32");
  expect([&] { graph.add_node(OpKind::Softmax, {x}, {{"axis", std::int64_t{2}}}, "n", one); },
         "axis is 2, expected a number from -2 to 1");
  expect([&] { graph.add_node(OpKind::Cast, {x}, {{"to", std::int64_t{99}}}, "n", one); },
         "not the number of a type");
}

}  // namespace
}  // namespace kiln::graph
