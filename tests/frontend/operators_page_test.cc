// docs/operators.md says what the tables of operators, contracts and templates say. KILN_UPDATE_GOLDEN=1 in
// the environment rewrites it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "frontend/onnx/operators.h"
#include "frontend/onnx/translators.h"
#include "ir/base/target.h"
#include "ir/graph/contract.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/template.h"
#include "runtime/passes/passes.h"
#include "tests/support/golden.h"

namespace kiln::frontend {
namespace {

using graph::FusionClass;
using graph::OpKind;

std::string_view note_of(Translator translator) {
  static const std::map<Translator, std::string_view> notes = {
#define KILN_ONNX_OP(domain, op, since, until, translator)
#define KILN_ONNX_NOTE(translator, note) {translate::translator, note},
#include "frontend/onnx/ops.def"
#undef KILN_ONNX_NOTE
#undef KILN_ONNX_OP
  };
  const auto found = notes.find(translator);
  return found == notes.end() ? "translated" : found->second;
}

std::string versions(std::int64_t since, std::int64_t until) {
  if (until > 1000) return fmt::format("{}-", since);
  return since == until ? fmt::format("{}", since) : fmt::format("{}-{}", since, until);
}

// One line for each operator of a domain.
std::string onnx_table(std::string_view domain) {
  std::map<std::string_view, std::vector<Operator>> by_name;
  for (const Operator& op : operators()) {
    if (op.domain == domain) by_name[op.name].push_back(op);
  }
  std::string text = "| operator | since | as the graph's operator, or as |\n| --- | --- | --- |\n";
  for (auto& [name, forms] : by_name) {
    std::sort(forms.begin(), forms.end(),
              [](const Operator& a, const Operator& b) { return a.since < b.since; });
    std::vector<std::string> notes;
    for (const Operator& form : forms) {
      const std::string_view note = note_of(form.translate);
      if (note.empty()) continue;
      notes.push_back(forms.size() == 1 ? std::string(note)
                                        : fmt::format("{}: {}", versions(form.since, form.until), note));
    }
    const std::string until = forms.back().until > 1000 ? "" : fmt::format(", until {}", forms.back().until);
    text += fmt::format("| {} | {}{} | {} |\n", name, forms.front().since, until, fmt::join(notes, "; "));
  }
  return text;
}

// The templates that have samples of an operator as what their family is about.
std::map<OpKind, std::set<std::string_view>> templates_of_operators() {
  std::map<OpKind, std::set<std::string_view>> result;
  for (const templates::Template& family : templates::all()) {
    for (const auto& sample : family.samples(Target{})) {
      const graph::Graph& graph = sample.problem.graph;
      const FusionClass root = contract(graph.node(sample.problem.root).op).fusion;
      for (const graph::NodeId id : graph.topological_order()) {
        const OpKind op = graph.node(id).op;
        if (contract(op).fusion == root) result[op].insert(family.name);
      }
    }
  }
  return result;
}

graph::ValueId operand(graph::Graph& graph, DType dtype, const Extents& extents, bool constant) {
  if (constant) return graph.add_constant(Tensor(dtype, extents));
  graph::Value value;
  value.dtype = dtype;
  value.shape = graph::Shape(extents.begin(), extents.end());
  const graph::ValueId id = graph.add_value(std::move(value));
  graph.inputs.push_back(id);
  return id;
}

// 1, or 1 for every spatial axis, where an attribute has no default; of texts only the direction of a shift
// works.
graph::Attributes required_attributes(OpKind op) {
  graph::Attributes attributes;
  for (const graph::AttributeSpec& spec : contract(op).attributes) {
    if (!spec.required) continue;
    const std::string key(spec.name);
    if (spec.type == graph::AttributeType::Integer) attributes[key] = std::int64_t{1};
    if (spec.type == graph::AttributeType::Text) attributes[key] = std::string("RIGHT");
    if (spec.type == graph::AttributeType::Integers) attributes[key] = std::vector<std::int64_t>{1, 1};
  }
  return attributes;
}

// True if the inputs already lie where the result does, as those of a Concat do.
bool is_done(const graph::Graph& graph, const graph::Node& node) {
  const auto storage = [&](graph::ValueId id) {
    return graph.value(id).layout ? graph.value(id).layout->storage : graph::ValueId::none();
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](graph::ValueId input) {
    return input && storage(input) && storage(input) == storage(node.outputs[0]);
  });
}

// An operator on plain operands after the graph passes; nothing where it cannot be had so.
std::optional<graph::Graph> optimised(OpKind op) {
  for (const DType dtype : {DType::F32, DType::I64, DType::I1, DType::U8}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}}) {
      for (const bool parameters : {false, true}) {
        graph::Graph graph;
        std::vector<graph::ValueId> operands = {operand(graph, dtype, {2, 3, 4, 5}, false)};
        while (operands.size() < count) {
          operands.push_back(
              operand(graph, dtype, parameters ? Extents{3} : Extents{2, 3, 4, 5}, parameters));
        }
        try {
          graph.outputs = {graph.add(op, operands, required_attributes(op))};
          runtime::optimise(graph);
          return graph;
        } catch (const Error&) {
          continue;
        }
      }
    }
  }
  return std::nullopt;
}

std::string runs_as(OpKind op, const std::map<OpKind, std::set<std::string_view>>& families) {
  if (contract(op).fusion == FusionClass::View) return "view, else a copy by map";
  if (contract(op).fusion == FusionClass::Shape) return "shape arithmetic, else reference only";
  if (const auto found = families.find(op); found != families.end()) {
    return fmt::format("{}", fmt::join(found->second, ", "));
  }
  const std::optional<graph::Graph> graph = optimised(op);
  if (!graph) return "reference only";
  std::set<std::string> through;
  for (const graph::NodeId id : graph->topological_order()) {
    const graph::Node& node = graph->node(id);
    if (is_done(*graph, node)) continue;
    const FusionClass fusion = contract(node.op).fusion;
    const bool emittable = fusion == FusionClass::Elementwise && !templates::why_not_emittable(*graph, node);
    if (node.op == op && emittable) return "map";
    if (node.op == op || !(emittable || fusion == FusionClass::View || families.contains(node.op))) {
      return "reference only";
    }
    through.insert(std::string(name(node.op)));
  }
  return through.empty() ? "nothing to run" : fmt::format("through {}", fmt::join(through, ", "));
}

std::string types(const graph::OpContract& op) {
  std::vector<std::string> constraints;
  for (const graph::TypeConstraint& constraint : op.types) {
    std::vector<std::string_view> names;
    for (const DType dtype : constraint.allowed) names.push_back(name(dtype));
    std::vector<std::string_view> operands;
    for (const auto specs : {op.inputs, op.outputs}) {
      for (const graph::OperandSpec& spec : specs) {
        if (spec.types == constraint.letter) operands.push_back(spec.name);
      }
    }
    constraints.push_back(fmt::format("{}: {}", fmt::join(operands, " "), fmt::join(names, " ")));
  }
  return fmt::format("{}", fmt::join(constraints, "; "));
}

std::string graph_table() {
  const auto templates = templates_of_operators();
  std::map<std::string_view, const graph::OpContract*> by_name;
  for (const graph::OpContract& op : graph::contracts()) by_name[op.name] = &op;
  std::string text = "| operator | class | runs as | element types |\n| --- | --- | --- | --- |\n";
  for (const auto& [name, op] : by_name) {
    text += fmt::format("| {} | {} | {} | {} |\n", name, op->operator_class, runs_as(op->kind, templates),
                        types(*op));
  }
  return text;
}

std::string refusal(std::string_view domain, std::string_view op, std::int64_t version) {
  try {
    find_operator(domain, op, version);
  } catch (const Error& error) {
    return std::string(error.message());
  }
  return "it is supported";
}

std::string page() {
  return fmt::format(R"(# Operators

Generated from `frontend/onnx/ops.def`, `ir/graph/ops.def` and the samples of `ir/templates`. A test compares it;
`KILN_UPDATE_GOLDEN=1 build/release/tests/frontend_test --gtest_filter='OperatorsPage*'` rewrites it.

A model's operators of every version become those of the graph, which have their newest meaning. The last column says
what is special about older forms, or what an operator becomes.

## ai.onnx, versions 1 to {}

{}
## ai.onnx.ml

{}
## ai.onnx.preview

{}
## com.microsoft

{}
## Left out

An operator that is not listed is refused when the model is loaded:

| operator | error |
| --- | --- |
| ImageDecoder | {} |
| training: ai.onnx.preview.training | {} |

## The graph's operators

The class says what an operator computes; `kiln verify --json` counts by it (below). "Runs as" names the families of generated kernels, or the operators through which it has them. Every operator also has a
reference kernel, which runs what a family refuses (`kiln explain --stage regions` says why) and is the truth that
generated kernels are tested against. Types are as in `kiln run`: i1 is a boolean.

{}
## Tests without a reference kernel

`kiln verify FOLDER --json FILE` counts under "classes", for each class of operators, the tests and those that passed with
no node on a reference kernel (arithmetic on at most 64 integers of shapes takes no kernel):

- A test counts for one class: of its model's nodes, as the graph has them before it is optimised, that of the one that
  comes first in convolution, matmul, normalisation, softmax, pooling, reduction, elementwise, data movement, shape. A
  node of the class "other" takes the test out of the count.
- What a standard's function expands to, `test_x_expanded` or `test_x_expanded_ver18`, counts for the class of `test_x`
  where that is among the tests.
- Inputs and outputs decide on the types: with f16 or bf16 among them a test is one of "f16 bf16", else of "f32 i32 i64
  i1". Any other type takes it out of the count. A test that is skipped, or refused when loaded, counts for none.

Of these classes `tests/tools/conformance_test.cc` demands nine in ten. With AVX-512 on 2026-11-30 it was so many of the
node tests of ONNX 1.23 in development (2026-08), and of all tests in Debian's `libonnx-testdata` 1.12:

| class | 1.23: f32 i32 i64 i1 | f16 bf16 | 1.12: f32 i32 i64 i1 | f16 bf16 |
| --- | --- | --- | --- | --- |
| convolution | 35 of 35 | 2 of 2 | 46 of 46 | |
| matmul | 34 of 34 | 2 of 2 | 18 of 18 | |
| normalisation | 98 of 98 | | 52 of 52 | |
| softmax | 42 of 42 | | 42 of 42 | |
| pooling | 45 of 45 | | 46 of 47 | |
| reduction | 135 of 135 | | 109 of 109 | |
| elementwise | 236 of 242 | 21 of 21 | 218 of 224 | 10 of 10 |
| data movement | 165 of 165 | | 160 of 160 | |
| shape | 19 of 19 | 4 of 4 | 21 of 21 | |
)",
                     kNewestOpset, onnx_table("ai.onnx"), onnx_table("ai.onnx.ml"),
                     onnx_table("ai.onnx.preview"), onnx_table("com.microsoft"),
                     refusal("ai.onnx", "ImageDecoder", 20), refusal("ai.onnx.preview.training", "Adam", 1),
                     graph_table());
}

TEST(OperatorsPage, IsUpToDate) { kiln::testing::expect_golden("../../docs/operators.md", page()); }

// A name that looks like an operator is one.
TEST(OperatorsPage, NotesNameOperators) {
  for (const Operator& op : operators()) {
    const std::string_view note = note_of(op.translate);
    std::size_t start = 0;
    while (start < note.size()) {
      const std::size_t end = std::min(note.find_first_of(" ,:;", start), note.size());
      const std::string_view word = note.substr(start, end - start);
      const bool camel = word.size() > 2 && std::isupper(static_cast<unsigned char>(word[0])) != 0;
      if (camel) {
        EXPECT_TRUE(graph::op_from_name(word)) << word << " in the note on " << op.name;
      }
      start = end + 1;
    }
  }
}

}  // namespace
}  // namespace kiln::frontend
