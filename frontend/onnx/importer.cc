#include "frontend/onnx/importer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "frontend/onnx/attributes.h"
#include "frontend/onnx/declared_types.h"
#include "frontend/onnx/node_order.h"
#include "frontend/onnx/operators.h"
#include "frontend/onnx/opsets.h"
#include "frontend/onnx/scope.h"
#include "frontend/onnx/translation.h"
#include "frontend/onnx/wire.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Shape;
using graph::SymbolId;

// The newest ir_version of ONNX that Kiln knows.
constexpr std::int64_t kNewestFormat = 13;

// A model-local function.
struct Function {
  const onnx::FunctionProto* proto = nullptr;
  Opsets opsets;
  std::vector<onnx::AttributeProto> defaults;
};

// Adds the place to an error, unless a place further inside is there already.
Error& at_node(Error& error, const std::string& node, const onnx::NodeProto& proto) {
  const auto& context = error.context();
  const auto has = [&](std::string_view key) {
    return std::any_of(context.begin(), context.end(), [&](const auto& entry) { return entry.first == key; });
  };
  if (has("node")) return error;
  error.with("node", node);
  if (!has("op")) error.with("op", proto.op_type());
  return error;
}

class Importer {
 public:
  Importer(const onnx::ModelProto& model, TensorReader& tensors, const LoadOptions& options)
      : model_(model), tensors_(tensors), options_(options) {}

  Graph import();

 private:
  void collect_functions();
  void import_initializers(const onnx::GraphProto& proto, Scope& scope,
                           const std::unordered_set<std::string>& skipped);
  void import_inputs(Scope& scope);
  void import_outputs(const onnx::GraphProto& proto, Scope& scope);
  void warn_of_outputs() const;
  static ValueId as_declared(ValueId id, const onnx::ValueInfoProto& info, Scope& scope);
  ValueId import_input(const onnx::ValueInfoProto& info);
  void check_default(const onnx::ValueInfoProto& info, const Tensor& tensor) const;
  void check_constant(const onnx::ValueInfoProto& info, const Formal& declared, const Tensor& tensor) const;
  Dim input_dim(const onnx::TensorShapeProto::Dimension& dim, ValueId input, std::int64_t axis);
  Dim fresh_dim(ValueId input, std::int64_t axis);

  void import_nodes(const Nodes& nodes, Scope& scope);
  void count_node();
  void import_node(const onnx::NodeProto& node, const std::string& name, Scope& scope);
  void translate(const onnx::NodeProto& node, const std::string& name, const std::vector<ValueId>& inputs,
                 const AttributeProtos& attributes, Scope& scope);
  // What a node is made from, but for its inputs.
  struct Source {
    const onnx::NodeProto& node;
    const std::string& name;
    const AttributeProtos& attributes;
  };
  void translate_by_rank(const Source& source, const OpenRank& open, const std::vector<ValueId>& inputs,
                         Scope& scope);
  void add_branches(const Source& source, std::size_t input, std::span<const std::int64_t> ranks,
                    const std::vector<ValueId>& inputs, Scope& scope);
  Body body_for_ranks(const Source& source, std::size_t input, std::span<const std::int64_t> ranks,
                      const std::vector<ValueId>& inputs, Scope& outer);
  void expand(const Function& function, const onnx::NodeProto& node, const std::string& name,
              const std::vector<ValueId>& inputs, const AttributeProtos& attributes, Scope& scope);
  ValueId find(const Scope& scope, const std::string& name) const;

  // The Graphs in the attributes of one node.
  class Bodies;
  Body import_body(const onnx::GraphProto& proto, std::span<const Formal> formals, Scope& outer,
                   const std::string& name);
  std::vector<ValueId> inline_body(const onnx::GraphProto& proto, std::span<const ValueId> inputs,
                                   Scope& outer, const std::string& name);
  Scope scope_of_body(Scope& outer, const std::string& name) const;

  const onnx::ModelProto& model_;
  TensorReader& tensors_;
  const LoadOptions& options_;
  GraphInProgress model_graph_;
  Graph& graph_ = model_graph_.graph;
  Opsets opsets_;
  std::unordered_map<const onnx::GraphProto*, ChangingExtents> changing_extents_;
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;  // domain, name, overload
  std::map<std::string, SymbolId, std::less<>> symbols_;                             // by dim_param
  std::unordered_set<std::string> dim_params_;  // which no made-up name may equal
  std::int64_t nodes_ = 0;
};

class Importer::Bodies : public BodyImporter {
 public:
  Bodies(Importer& importer, const AttributeProtos& attributes, Scope& scope, const std::string& node)
      : importer_(importer), attributes_(attributes), scope_(scope), node_(node) {}

  bool has(std::string_view attribute) const override {
    const auto found = attributes_.find(attribute);
    return found != attributes_.end() && found->second->has_g();
  }
  Body import_body(std::string_view attribute, std::span<const Formal> formals) override {
    return importer_.import_body(proto(attribute), formals, scope_, node_);
  }
  std::vector<Formal> declared_inputs(std::string_view attribute) const override {
    std::vector<Formal> formals;
    for (const auto& input : proto(attribute).input()) {
      const auto& type = input.type().tensor_type();
      Formal& formal = formals.emplace_back();
      formal.dtype = dtype_from_onnx(type.elem_type()).value_or(DType::F32);
      if (!type.has_shape()) continue;
      formal.shape.emplace();
      for (const auto& dim : type.shape().dim()) {
        const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
        formal.shape->push_back(known ? Dim(dim.dim_value()) : kOpenExtent);
      }
    }
    return formals;
  }
  std::vector<ValueId> inline_body(std::string_view attribute, std::span<const ValueId> inputs) override {
    return importer_.inline_body(proto(attribute), inputs, scope_, fmt::format("{}/{}", node_, attribute));
  }
  ChangingExtents& changing_extents(std::string_view attribute) override {
    return importer_.changing_extents_[&proto(attribute)];
  }

 private:
  const onnx::GraphProto& proto(std::string_view attribute) const {
    if (!has(attribute)) {
      throw_caller(ErrorCode::InvalidModel, "attribute '{}', which must hold a graph, is missing", attribute);
    }
    return attributes_.find(attribute)->second->g();
  }

  Importer& importer_;
  const AttributeProtos& attributes_;
  Scope& scope_;
  const std::string& node_;
};

Graph Importer::import() {
  const onnx::GraphProto& proto = model_.graph();
  opsets_ = read_opsets(model_.opset_import());
  // Models of before opsets existed have the meanings of opset 1.
  if (opsets_.empty()) opsets_["ai.onnx"] = 1;
  if (options_.warn && model_.ir_version() > kNewestFormat) {
    options_.warn(fmt::format("the model is in version {} of the ONNX format, the newest known is {}",
                              model_.ir_version(), kNewestFormat));
  }
  collect_functions();

  graph_.name = proto.name();
  Scope scope;
  scope.target = &model_graph_;
  scope.opsets = &opsets_;
  // Initializers that are not constants of the Graph.
  std::unordered_set<std::string> given(options_.replaced_defaults.begin(), options_.replaced_defaults.end());
  for (const auto& [name, tensor] : options_.constant_inputs) given.insert(name);
  import_initializers(proto, scope, given);
  import_inputs(scope);
  import_nodes(proto.node(), scope);
  import_outputs(proto, scope);
  if (options_.warn) warn_of_outputs();
  return std::move(graph_);
}

// What an output is, the operators say; a model that declares something else is taken at its operators.
void Importer::warn_of_outputs() const {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const onnx::ValueInfoProto& info = model_.graph().output(static_cast<int>(i));
    const graph::Value& made = graph_.value(graph_.outputs[i]);
    const onnx::TypeProto::Tensor& declared = info.type().tensor_type();
    const std::optional<DType> dtype = dtype_from_onnx(declared.elem_type());
    if (!info.type().has_tensor_type() || !dtype || made.container != Container::Tensor) continue;
    const bool fits = !declared.has_shape() || !made.shape || can_be(*made.shape, declared.shape());
    if (*dtype == made.dtype && fits) continue;
    const auto symbol = [&](SymbolId id) { return graph_.symbol_name(id); };
    std::vector<std::string> extents;
    for (const Dim& dim : made.shape.value_or(Shape())) extents.push_back(dim.to_string(symbol));
    options_.warn(
        printable(fmt::format("output {} is declared as {}{}, but the nodes make it {}[{}]", info.name(),
                              kiln::name(*dtype), declared.has_shape() ? shape_text(declared.shape()) : "",
                              kiln::name(made.dtype), fmt::join(extents, ", "))));
  }
}

void Importer::import_outputs(const onnx::GraphProto& proto, Scope& scope) {
  for (const auto& output : proto.output()) {
    const std::optional<ValueId> found = scope.find(output.name());
    if (!found || !*found) {
      throw_caller(ErrorCode::InvalidModel,
                   "graph output '{}' is not defined by any node, input or initializer", output.name());
    }
    scope.graph().outputs.push_back(as_declared(*found, output, scope));
  }
}

// Whether an output may be nothing is up to the model, if it says so.
ValueId Importer::as_declared(ValueId id, const onnx::ValueInfoProto& info, Scope& scope) {
  const Container made = scope.graph().value(id).container;
  const bool optional = info.type().has_optional_type();
  const bool certain = info.type().has_tensor_type() || info.type().has_sequence_type();
  std::optional<OpKind> conversion;
  // A function may pass its input on, or one value twice; the model's outputs keep their own names.
  const bool renamed = scope.outer == nullptr && scope.graph().value(id).name != info.name();
  if (renamed) conversion = OpKind::Identity;
  if (certain && made != graph::certain(made)) conversion = OpKind::OptionalGetElement;
  if (optional && made != graph::maybe(made)) conversion = OpKind::Optional;
  if (!conversion) return id;
  const std::string names[] = {info.name()};
  Graph& graph = scope.graph();
  return graph.node(graph.add_node(*conversion, {id}, {}, {}, names)).outputs[0];
}

void Importer::collect_functions() {
  for (const auto& proto : model_.functions()) {
    Function function{&proto, read_opsets(proto.opset_import()), default_attributes(proto)};
    if (function.opsets.empty()) function.opsets = opsets_;
    std::tuple key(domain_name(proto.domain()), proto.name(), overload(proto));
    if (!functions_.emplace(std::move(key), std::move(function)).second) {
      throw_caller(ErrorCode::InvalidModel, "function '{}' of domain '{}' is defined twice", proto.name(),
                   proto.domain());
    }
  }
}

void Importer::import_initializers(const onnx::GraphProto& proto, Scope& scope,
                                   const std::unordered_set<std::string>& skipped) {
  const auto import = [&](const std::string& name, const auto& initializer) {
    if (name.empty()) throw_caller(ErrorCode::InvalidModel, "an initializer has no name");
    if (skipped.contains(name)) return;
    scope.define(name, scope.graph().add_constant(tensors_.read(initializer), scope.value_name(name)));
  };
  for (const auto& initializer : proto.initializer()) import(initializer.name(), initializer);
  for (const auto& initializer : proto.sparse_initializer()) import(initializer.values().name(), initializer);
}

void Importer::import_inputs(Scope& scope) {
  for (const auto& input : model_.graph().input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) dim_params_.insert(dim.dim_param());
  }
  std::unordered_set<std::string> seen;
  std::vector<const onnx::ValueInfoProto*> replaced;
  for (const auto& input : model_.graph().input()) {
    if (input.name().empty()) throw_caller(ErrorCode::InvalidModel, "a graph input has no name");
    if (!seen.insert(input.name()).second) {
      throw_caller(ErrorCode::InvalidModel, "graph input '{}' is listed twice", input.name());
    }
    if (const auto constant = scope.values.find(input.name()); constant != scope.values.end()) {
      check_default(input, *graph_.value(constant->second).constant);
    } else if (options_.replaced_defaults.contains(input.name())) {
      replaced.push_back(&input);
    } else {
      scope.define(input.name(), import_input(input));
    }
  }
  for (const onnx::ValueInfoProto* input : replaced) scope.define(input->name(), import_input(*input));
  for (const auto& [name, tensor] : options_.constant_inputs) {
    if (!seen.contains(name)) throw_caller(ErrorCode::InvalidArgument, "the model has no input '{}'", name);
  }
}

// An initializer that is an input too is what it is, whatever shape is declared.
void Importer::check_default(const onnx::ValueInfoProto& info, const Tensor& tensor) const {
  const auto& type = info.type().tensor_type();
  const std::optional<DType> dtype = dtype_from_onnx(type.elem_type());
  const bool other_kind =
      info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET && !info.type().has_tensor_type();
  if (other_kind) {
    throw_caller(ErrorCode::TypeMismatch,
                 "graph input '{}' is declared as no tensor, its initializer is {} {}", info.name(),
                 kiln::name(tensor.dtype()), to_string(tensor.extents()));
  }
  if (dtype && *dtype != tensor.dtype()) {
    throw_caller(ErrorCode::TypeMismatch, "graph input '{}' is declared as {}, its initializer is {}",
                 info.name(), kiln::name(*dtype), kiln::name(tensor.dtype()));
  }
  if (!options_.warn || !type.has_shape()) return;
  if (can_be(Shape(tensor.extents().begin(), tensor.extents().end()), type.shape())) return;
  options_.warn(printable(fmt::format("input {} is declared as {}, but its default value is {}", info.name(),
                                      shape_text(type.shape()), to_string(tensor.extents()))));
}

ValueId Importer::import_input(const onnx::ValueInfoProto& info) {
  const std::string what = fmt::format("graph input '{}'", info.name());
  const Formal declared = declared_type(info.type(), what);
  if (const auto given = options_.constant_inputs.find(info.name());
      given != options_.constant_inputs.end()) {
    check_constant(info, declared, given->second);
    return graph_.add_constant(given->second, info.name());
  }
  const ValueId id = add_formal(model_graph_, declared, info.name());
  const auto& type = info.type().tensor_type();
  if (declared.container != Container::Tensor || !type.has_shape() || options_.hide_rank) return id;
  const auto opened = options_.opened_inputs.find(info.name());
  const bool rank_is_wrong = opened != options_.opened_inputs.end() && opened->second.rank;
  const std::size_t rank =
      rank_is_wrong ? *opened->second.rank : static_cast<std::size_t>(type.shape().dim_size());
  Shape shape;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool open = options_.hide_dims || rank_is_wrong ||
                      (opened != options_.opened_inputs.end() && opened->second.axes.contains(axis));
    const auto position = static_cast<std::int64_t>(axis);
    shape.push_back(open ? fresh_dim(id, position)
                         : input_dim(type.shape().dim(static_cast<int>(axis)), id, position));
  }
  graph_.value(id).shape = std::move(shape);
  return id;
}

void Importer::check_constant(const onnx::ValueInfoProto& info, const Formal& declared,
                              const Tensor& tensor) const {
  const bool can_be_tensor =
      declared.container == Container::Tensor || declared.container == Container::Optional;
  if (!can_be_tensor || tensor.dtype() != declared.dtype) {
    throw_caller(ErrorCode::TypeMismatch, "input '{}' is a {} of {}, got a tensor of {}", info.name(),
                 kiln::name(declared.container), kiln::name(declared.dtype), kiln::name(tensor.dtype()));
  }
  const auto& type = info.type().tensor_type();
  if (!type.has_shape() || options_.hide_rank) return;
  const Shape extents(tensor.extents().begin(), tensor.extents().end());
  const bool same_rank = type.shape().dim_size() == tensor.rank();
  if (options_.hide_dims ? same_rank : can_be(extents, type.shape())) return;
  throw_caller(ErrorCode::ShapeMismatch, "input '{}' is declared as {}, got a constant of shape {}",
               info.name(), shape_text(type.shape()), to_string(tensor.extents()));
}

Dim Importer::input_dim(const onnx::TensorShapeProto::Dimension& dim, ValueId input, std::int64_t axis) {
  // Exporters write a negative extent for one that they do not know.
  if (dim.has_dim_value() && dim.dim_value() >= 0) return dim.dim_value();
  if (!dim.has_dim_param() || is_anonymous(dim.dim_param())) return fresh_dim(input, axis);
  const auto [found, is_new] = symbols_.try_emplace(dim.dim_param());
  if (is_new) {
    found->second = graph_.add_symbol({dim.dim_param(), {graph::SymbolSource::Kind::InputDim, input, axis}});
  }
  return Dim::symbol(found->second);
}

Dim Importer::fresh_dim(ValueId input, std::int64_t axis) {
  std::string name = fmt::format("{}.{}", graph_.value(input).name, axis);
  while (dim_params_.contains(name)) name += '_';
  return Dim::symbol(graph_.add_symbol({name, {graph::SymbolSource::Kind::InputDim, input, axis}}));
}

ValueId Importer::find(const Scope& scope, const std::string& name) const {
  if (name.empty()) return ValueId::none();
  const std::optional<ValueId> found = scope.find(name);
  if (!found) {
    throw_caller(ErrorCode::InvalidModel, "input '{}' is not defined by any node, input or initializer",
                 name);
  }
  return *found;
}

void Importer::import_nodes(const Nodes& nodes, Scope& scope) {
  for (const int index : producers_first(nodes, scope)) {
    const onnx::NodeProto& node = nodes[index];
    const std::string name = node_name(scope, node, index);
    try {
      import_node(node, name, scope);
    } catch (Error& error) {
      throw at_node(error, name, node);
    }
  }
}

void Importer::count_node() {
  if (++nodes_ > options_.limits.nodes) {
    throw_caller(ErrorCode::LimitExceeded, "the model has more than {} nodes, functions expanded",
                 options_.limits.nodes);
  }
}

void Importer::import_node(const onnx::NodeProto& node, const std::string& name, Scope& scope) {
  count_node();
  std::vector<ValueId> inputs;
  for (const std::string& input : node.input()) inputs.push_back(find(scope, input));
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();

  AttributeProtos attributes;
  for (const auto& attribute : node.attribute()) {
    const onnx::AttributeProto* meant = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      const auto found = scope.attributes.find(attribute.ref_attr_name());
      if (found == scope.attributes.end()) continue;  // the caller left it to the operator's default
      meant = found->second;
    }
    if (!attributes.emplace(attribute.name(), meant).second) {
      throw_caller(ErrorCode::InvalidModel, "attribute '{}' is given twice", attribute.name());
    }
  }
  const auto function = functions_.find({domain_name(node.domain()), node.op_type(), overload(node)});
  if (function != functions_.end()) {
    expand(function->second, node, name, inputs, attributes, scope);
  } else {
    translate(node, name, inputs, attributes, scope);
  }
}

void Importer::translate(const onnx::NodeProto& node, const std::string& name,
                         const std::vector<ValueId>& inputs, const AttributeProtos& attributes,
                         Scope& scope) {
  Translation translation(scope.graph(), name);
  translation.domain = domain_name(node.domain());
  translation.op = node.op_type();
  translation.opset = opset_version(*scope.opsets, translation.domain);
  const Operator& op = find_operator(translation.domain, translation.op, translation.opset);
  translation.inputs = inputs;
  Bodies bodies(*this, attributes, scope, name);
  translation.bodies = &bodies;
  for (const auto& [key, attribute] : attributes) {
    if (!bodies.has(key)) translation.attributes[key] = read_attribute(*attribute, tensors_);
  }
  std::vector<std::string> names(node.output().begin(), node.output().end());
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) return;  // nothing can read it
  for (const std::string& output : names) {
    translation.outputs.push_back(output.empty() ? output : scope.value_name(output));
  }
  op.translate(translation);
  if (translation.open_rank)
    return translate_by_rank({node, name, attributes}, *translation.open_rank, inputs, scope);
  require(translation.results.size() >= names.size(), "the translator of {} made {} of {} outputs",
          translation.op, translation.results.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) scope.define(names[i], translation.results[i]);
  }
}

// The ranks for which the node can be translated at all each get a branch; a single one needs none.
void Importer::translate_by_rank(const Source& source, const OpenRank& open,
                                 const std::vector<ValueId>& inputs, Scope& scope) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = open.low; rank <= open.high; ++rank) {
    try {
      body_for_ranks(source, open.input, std::span(&rank, 1), inputs, scope);
      ranks.push_back(rank);
    } catch (const Error&) {
      if (rank == open.high && ranks.empty()) throw;
    }
  }
  if (ranks.size() > 1) return add_branches(source, open.input, ranks, inputs, scope);
  std::vector<std::int64_t> order(static_cast<std::size_t>(ranks[0]));
  std::iota(order.begin(), order.end(), 0);
  std::vector<ValueId> checked = inputs;
  checked[open.input] = scope.graph().add(OpKind::Transpose, {inputs[open.input]}, {{"perm", order}});
  translate(source.node, source.name, checked, source.attributes, scope);
}

// An If that asks for the first of several ranks.
void Importer::add_branches(const Source& source, std::size_t input, std::span<const std::int64_t> ranks,
                            const std::vector<ValueId>& inputs, Scope& scope) {
  Graph& graph = scope.graph();
  const ValueId rank = graph.add(OpKind::Shape, {graph.add(OpKind::Shape, {inputs[input]})});
  const ValueId first = graph.add_constant(Tensor::from_integers(std::vector{ranks.front()}));
  std::vector<ValueId> operands = {graph.add(OpKind::Equal, {rank, first})};
  Attributes branches;
  for (const auto& [branch, of_ranks] :
       {std::pair("else_branch", ranks.subspan(1)), std::pair("then_branch", ranks.first(1))}) {
    Body body = body_for_ranks(source, input, of_ranks, inputs, scope);
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    branches.emplace(branch, std::move(body.graph));
  }
  std::vector<std::string> names, value_names;
  for (const std::string& output : source.node.output()) {
    if (output.empty()) continue;
    names.push_back(output);
    value_names.push_back(scope.value_name(output));
  }
  const graph::NodeId made =
      graph.add_node(OpKind::If, std::move(operands), std::move(branches), source.name, value_names);
  for (std::size_t i = 0; i < names.size(); ++i) scope.define(names[i], graph.node(made).outputs[i]);
}

Body Importer::body_for_ranks(const Source& source, std::size_t input, std::span<const std::int64_t> ranks,
                              const std::vector<ValueId>& inputs, Scope& outer) {
  count_node();
  GraphInProgress target;
  target.graph.name = fmt::format("{} of rank {}", source.name, ranks.front());
  Scope scope = scope_of_body(outer, source.name);
  scope.target = &target;
  std::vector<ValueId> captured;
  for (const ValueId id : inputs) captured.push_back(id ? capture(target, outer.graph(), id) : id);
  if (ranks.size() > 1) {
    add_branches(source, input, ranks, captured, scope);
  } else {
    set_rank(target.graph, captured[input], static_cast<std::size_t>(ranks.front()));
    translate(source.node, source.name, captured, source.attributes, scope);
  }
  for (const std::string& output : source.node.output()) {
    if (!output.empty()) target.graph.outputs.push_back(scope.values.at(output));
  }
  return {std::make_shared<Graph>(std::move(target.graph)), std::move(target.captures)};
}

void Importer::expand(const Function& function, const onnx::NodeProto& node, const std::string& name,
                      const std::vector<ValueId>& inputs, const AttributeProtos& attributes, Scope& scope) {
  const onnx::FunctionProto& proto = *function.proto;
  if (scope.depth >= options_.limits.nesting) {
    throw_caller(ErrorCode::LimitExceeded, "function calls nest deeper than {}", options_.limits.nesting);
  }
  if (inputs.size() > static_cast<std::size_t>(proto.input_size()) ||
      node.output_size() > proto.output_size()) {
    throw_caller(ErrorCode::InvalidModel,
                 "function '{}' has {} inputs and {} outputs, the call has {} and {}", proto.name(),
                 proto.input_size(), proto.output_size(), inputs.size(), node.output_size());
  }
  Scope body;
  body.target = scope.target;
  body.prefix = name + "/";
  body.opsets = &function.opsets;
  body.depth = scope.depth + 1;
  for (const auto& attribute : function.defaults) body.attributes[attribute.name()] = &attribute;
  for (const auto& [key, attribute] : attributes) body.attributes[key] = attribute;
  for (int i = 0; i < proto.input_size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    body.define(proto.input(i), index < inputs.size() ? inputs[index] : ValueId::none());
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) body.output_names[proto.output(i)] = scope.value_name(node.output(i));
  }
  import_nodes(proto.node(), body);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const auto found = body.values.find(proto.output(i));
    if (found == body.values.end() || !found->second) {
      throw_caller(ErrorCode::InvalidModel, "function '{}' does not define its output '{}'", proto.name(),
                   proto.output(i));
    }
    scope.define(node.output(i), found->second);
  }
}

Scope Importer::scope_of_body(Scope& outer, const std::string& name) const {
  if (outer.depth >= options_.limits.nesting) {
    throw_caller(ErrorCode::LimitExceeded, "graphs and function calls nest deeper than {}",
                 options_.limits.nesting);
  }
  Scope scope;
  scope.target = outer.target;
  scope.outer = &outer;
  scope.prefix = name + "/";
  scope.opsets = outer.opsets;
  scope.attributes = outer.attributes;
  scope.depth = outer.depth + 1;
  return scope;
}

void require_inputs(const onnx::GraphProto& proto, std::size_t given) {
  if (given != static_cast<std::size_t>(proto.input_size())) {
    throw_caller(ErrorCode::InvalidModel, "graph '{}' has {} inputs, the node gives it {}", proto.name(),
                 proto.input_size(), given);
  }
}

Body Importer::import_body(const onnx::GraphProto& proto, std::span<const Formal> formals, Scope& outer,
                           const std::string& name) {
  require_inputs(proto, formals.size());
  GraphInProgress target;
  target.graph.name = proto.name();
  Scope scope = scope_of_body(outer, name);
  scope.target = &target;
  std::unordered_set<std::string> inputs;
  for (std::size_t i = 0; i < formals.size(); ++i) {
    const std::string& input = proto.input(static_cast<int>(i)).name();
    scope.define(input, add_formal(target, formals[i], scope.value_name(input)));
    inputs.insert(input);
  }
  import_initializers(proto, scope, inputs);
  import_nodes(proto.node(), scope);
  import_outputs(proto, scope);
  return {std::make_shared<Graph>(std::move(target.graph)), std::move(target.captures)};
}

std::vector<ValueId> Importer::inline_body(const onnx::GraphProto& proto, std::span<const ValueId> inputs,
                                           Scope& outer, const std::string& name) {
  require_inputs(proto, inputs.size());
  Scope scope = scope_of_body(outer, name);
  std::unordered_set<std::string> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& input = proto.input(static_cast<int>(i)).name();
    scope.define(input, inputs[i]);
    given.insert(input);
  }
  import_initializers(proto, scope, given);
  import_nodes(proto.node(), scope);
  std::vector<ValueId> outputs;
  for (const auto& output : proto.output()) outputs.push_back(find(scope, output.name()));
  return outputs;
}

}  // namespace

graph::Graph import_model(const onnx::ModelProto& model, TensorReader& tensors, const LoadOptions& options) {
  return Importer(model, tensors, options).import();
}

}  // namespace kiln::frontend
