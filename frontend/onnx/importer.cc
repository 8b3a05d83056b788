#include "frontend/onnx/importer.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontend/onnx/operators.h"
#include "frontend/onnx/translation.h"
#include "frontend/onnx/wire.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Shape;
using graph::SymbolId;
using graph::Value;

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Opsets = std::map<std::string, std::int64_t, std::less<>>;
using AttributeProtos = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

template <typename Imports>
Opsets read_opsets(const Imports& imports) {
  Opsets opsets;
  for (const auto& import : imports) opsets[domain_name(import.domain())] = import.version();
  if (const auto found = opsets.find("ai.onnx"); found != opsets.end() && found->second > kNewestOpset) {
    throw_caller(ErrorCode::Unsupported, "the model uses opset {} of ai.onnx, the newest known is {}",
                 found->second, kNewestOpset);
  }
  return opsets;
}

// The version of a domain's operators; models often use com.microsoft without importing it.
std::int64_t opset_version(const Opsets& opsets, const std::string& domain) {
  if (const auto found = opsets.find(domain); found != opsets.end()) return found->second;
  if (domain == "com.microsoft") return 1;
  throw_caller(ErrorCode::InvalidModel, "the model imports no opset of the operator's domain '{}'", domain);
}

// A model-local function.
struct Function {
  const onnx::FunctionProto* proto = nullptr;
  Opsets opsets;
  std::vector<onnx::AttributeProto> defaults;
};

// What names mean inside one graph or one expansion of a function.
struct Scope {
  std::string prefix;  // before names of Values and nodes in here
  const Opsets* opsets = nullptr;
  std::unordered_map<std::string, ValueId> values;
  AttributeProtos attributes;  // of the expanded call; what ref_attr_name refers to
  std::unordered_map<std::string, std::string>
      output_names;  // a function's outputs: names that the caller gives
  int depth = 0;

  std::string value_name(const std::string& name) const {
    const auto renamed = output_names.find(name);
    return renamed == output_names.end() ? prefix + name : renamed->second;
  }
};

std::string node_name(const Scope& scope, const onnx::NodeProto& node, int index) {
  return scope.prefix + (node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name());
}

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

[[noreturn]] void fail_at(const std::string& node, const onnx::NodeProto& proto, std::string message) {
  throw Error(ErrorKind::Caller, ErrorCode::InvalidModel, std::move(message),
              {{"node", node}, {"op", proto.op_type()}});
}

// A declared dimension that stands for no particular symbol; "?" and "None" are what exporters write when
// they know nothing, in several places with unrelated extents.
bool is_anonymous(const std::string& dim_param) {
  return dim_param.empty() || dim_param == "?" || dim_param == "None" || dim_param == "-1";
}

bool is_constant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && domain_name(node.domain()) == "ai.onnx";
}

class Importer {
 public:
  Importer(const onnx::ModelProto& model, TensorReader& tensors, const LoadOptions& options)
      : model_(model), tensors_(tensors), options_(options) {}

  Graph import();

 private:
  void collect_functions();
  void define(Scope& scope, const std::string& name, ValueId id) {
    if (!scope.values.emplace(name, id).second) {
      throw_caller(ErrorCode::InvalidModel, "value '{}' is defined twice", name);
    }
  }
  void import_initializers(Scope& scope);
  void import_inputs(Scope& scope);
  ValueId import_input(const onnx::ValueInfoProto& info);
  Dim input_dim(const onnx::TensorShapeProto::Dimension& dim, ValueId input, std::int64_t axis);
  Dim fresh_dim(ValueId input, std::int64_t axis);

  void import_nodes(const Nodes& nodes, Scope& scope);
  std::vector<int> sorted(const Nodes& nodes, const Scope& scope) const;
  void import_node(const onnx::NodeProto& node, const std::string& name, Scope& scope);
  void translate(const onnx::NodeProto& node, const std::string& name, std::vector<ValueId> inputs,
                 const AttributeProtos& attributes, Scope& scope);
  void expand(const Function& function, const onnx::NodeProto& node, const std::string& name,
              const std::vector<ValueId>& inputs, const AttributeProtos& attributes, Scope& scope);
  Attribute import_attribute(const onnx::AttributeProto& attribute);
  ValueId find(const Scope& scope, const std::string& name) const;

  const onnx::ModelProto& model_;
  TensorReader& tensors_;
  const LoadOptions& options_;
  Graph graph_;
  Opsets opsets_;
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;  // domain, name, overload
  std::map<std::string, SymbolId, std::less<>> symbols_;                             // by dim_param
  std::unordered_set<std::string> dim_params_;  // which no made-up name may equal
  std::int64_t nodes_ = 0;
};

Graph Importer::import() {
  const onnx::GraphProto& proto = model_.graph();
  opsets_ = read_opsets(model_.opset_import());
  // Models of before opsets existed have the meanings of opset 1.
  if (opsets_.empty()) opsets_["ai.onnx"] = 1;
  collect_functions();

  graph_.name = proto.name();
  Scope scope;
  scope.opsets = &opsets_;
  import_initializers(scope);
  import_inputs(scope);
  import_nodes(proto.node(), scope);
  for (const auto& output : proto.output()) {
    const auto found = scope.values.find(output.name());
    if (found == scope.values.end()) {
      throw_caller(ErrorCode::InvalidModel,
                   "graph output '{}' is not defined by any node, input or initializer", output.name());
    }
    graph_.outputs.push_back(found->second);
  }
  return std::move(graph_);
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

void Importer::import_initializers(Scope& scope) {
  std::unordered_set<std::string> stay_inputs;
  if (options_.initialized_inputs_stay_inputs) {
    for (const auto& input : model_.graph().input()) stay_inputs.insert(input.name());
  }
  const auto import = [&](const std::string& name, const auto& proto) {
    if (name.empty()) throw_caller(ErrorCode::InvalidModel, "an initializer has no name");
    if (stay_inputs.contains(name) || options_.constant_inputs.contains(name)) return;
    define(scope, name, graph_.add_constant(tensors_.read(proto), name));
  };
  for (const auto& proto : model_.graph().initializer()) import(proto.name(), proto);
  for (const auto& proto : model_.graph().sparse_initializer()) import(proto.values().name(), proto);
}

void Importer::import_inputs(Scope& scope) {
  for (const auto& input : model_.graph().input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) dim_params_.insert(dim.dim_param());
  }
  std::unordered_set<std::string> seen;
  for (const auto& input : model_.graph().input()) {
    if (input.name().empty()) throw_caller(ErrorCode::InvalidModel, "a graph input has no name");
    if (!seen.insert(input.name()).second) {
      throw_caller(ErrorCode::InvalidModel, "graph input '{}' is listed twice", input.name());
    }
    if (scope.values.contains(input.name())) continue;  // its initializer is a constant
    define(scope, input.name(), import_input(input));
  }
  for (const auto& [name, tensor] : options_.constant_inputs) {
    if (!seen.contains(name)) throw_caller(ErrorCode::InvalidArgument, "the model has no input '{}'", name);
  }
}

ValueId Importer::import_input(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type()) {
    throw_caller(ErrorCode::Unsupported, "graph input '{}' is not a dense tensor; only tensors are supported",
                 info.name());
  }
  const auto& type = info.type().tensor_type();
  const DType dtype = require_dtype(type.elem_type(), fmt::format("graph input '{}'", info.name()));
  if (const auto given = options_.constant_inputs.find(info.name());
      given != options_.constant_inputs.end()) {
    if (given->second.dtype() != dtype) {
      throw_caller(ErrorCode::TypeMismatch, "input '{}' is {}, got a tensor of {}", info.name(),
                   kiln::name(dtype), kiln::name(given->second.dtype()));
    }
    return graph_.add_constant(given->second, info.name());
  }
  Value value;
  value.name = info.name();
  value.dtype = dtype;
  const ValueId id = graph_.add_value(std::move(value));
  graph_.inputs.push_back(id);
  if (!type.has_shape() || options_.hide_rank) return id;
  Shape shape;
  for (const auto& dim : type.shape().dim())
    shape.push_back(input_dim(dim, id, static_cast<std::int64_t>(shape.size())));
  graph_.value(id).shape = std::move(shape);
  return id;
}

Dim Importer::input_dim(const onnx::TensorShapeProto::Dimension& dim, ValueId input, std::int64_t axis) {
  if (options_.hide_dims) return fresh_dim(input, axis);
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
  const auto found = scope.values.find(name);
  if (found == scope.values.end()) {
    throw_caller(ErrorCode::InvalidModel, "input '{}' is not defined by any node, input or initializer",
                 name);
  }
  return found->second;
}

void Importer::import_nodes(const Nodes& nodes, Scope& scope) {
  for (const int index : sorted(nodes, scope)) {
    const onnx::NodeProto& node = nodes[index];
    const std::string name = node_name(scope, node, index);
    try {
      import_node(node, name, scope);
    } catch (Error& error) {
      throw at_node(error, name, node);
    }
  }
}

// Indices of `nodes` so that producers come first, otherwise in the order of the file. Tools that edit models
// append a Constant to override an earlier one of the same name, and ONNX Runtime lets the last one stand: so
// does Kiln, for all readers. Any other second definition is an error.
std::vector<int> Importer::sorted(const Nodes& nodes, const Scope& scope) const {
  std::unordered_map<std::string_view, int> producers;
  std::unordered_set<int> overridden;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (output.empty()) continue;
      const auto [found, is_new] = producers.emplace(output, i);
      if (is_new && !scope.values.contains(output)) continue;
      if (is_new || !is_constant(nodes[i]) || !is_constant(nodes[found->second]) || found->second == i) {
        fail_at(node_name(scope, nodes[i], i), nodes[i], fmt::format("value '{}' is defined twice", output));
      }
      overridden.insert(std::exchange(found->second, i));
    }
  }
  std::vector<int> missing(static_cast<std::size_t>(nodes.size()));  // producers not yet placed, per node
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].input()) {
      const auto producer = producers.find(input);
      if (producer == producers.end()) continue;  // import_node() reports a name that nothing defines
      readers[static_cast<std::size_t>(producer->second)].push_back(i);
      ++missing[static_cast<std::size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (missing[static_cast<std::size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const int reader : readers[static_cast<std::size_t>(node)]) {
      if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() == missing.size()) {
    std::erase_if(order, [&](int node) { return overridden.contains(node); });
    return order;
  }
  // Walking back over producers that could not be placed must come to a node twice: that one is in a cycle.
  int node = static_cast<int>(std::find_if(missing.begin(), missing.end(), [](int n) { return n > 0; }) -
                              missing.begin());
  std::string_view through;
  for (std::set<int> seen; seen.insert(node).second;) {
    for (const std::string& input : nodes[node].input()) {
      const auto producer = producers.find(input);
      if (producer == producers.end() || missing[static_cast<std::size_t>(producer->second)] == 0) continue;
      node = producer->second;
      through = input;
      break;
    }
  }
  fail_at(node_name(scope, nodes[node], node), nodes[node],
          fmt::format("it depends on its own output '{}': the graph has a cycle", through));
}

void Importer::import_node(const onnx::NodeProto& node, const std::string& name, Scope& scope) {
  if (++nodes_ > options_.limits.nodes) {
    throw_caller(ErrorCode::LimitExceeded, "the model has more than {} nodes, functions expanded",
                 options_.limits.nodes);
  }
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
    translate(node, name, std::move(inputs), attributes, scope);
  }
}

void Importer::translate(const onnx::NodeProto& node, const std::string& name, std::vector<ValueId> inputs,
                         const AttributeProtos& attributes, Scope& scope) {
  Translation translation(graph_, name);
  translation.domain = domain_name(node.domain());
  translation.op = node.op_type();
  translation.opset = opset_version(*scope.opsets, translation.domain);
  const Operator& op = find_operator(translation.domain, translation.op, translation.opset);
  translation.inputs = std::move(inputs);
  for (const auto& [key, attribute] : attributes) translation.attributes[key] = import_attribute(*attribute);
  std::vector<std::string> names(node.output().begin(), node.output().end());
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) return;  // nothing can read it
  for (const std::string& output : names) {
    translation.outputs.push_back(output.empty() ? output : scope.value_name(output));
  }
  op.translate(translation);
  require(translation.results.size() >= names.size(), "the translator of {} made {} of {} outputs",
          translation.op, translation.results.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) define(scope, names[i], translation.results[i]);
  }
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
  body.prefix = name + "/";
  body.opsets = &function.opsets;
  body.depth = scope.depth + 1;
  for (const auto& attribute : function.defaults) body.attributes[attribute.name()] = &attribute;
  for (const auto& [key, attribute] : attributes) body.attributes[key] = attribute;
  for (int i = 0; i < proto.input_size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    define(body, proto.input(i), index < inputs.size() ? inputs[index] : ValueId::none());
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
    define(scope, node.output(i), found->second);
  }
}

Attribute Importer::import_attribute(const onnx::AttributeProto& attribute) {
  using Proto = onnx::AttributeProto;
  Proto::AttributeType type = attribute.type();
  if (type == Proto::UNDEFINED) {  // the first versions of the format had no type
    if (attribute.has_f()) type = Proto::FLOAT;
    if (attribute.has_i()) type = Proto::INT;
    if (attribute.has_s()) type = Proto::STRING;
    if (attribute.has_t()) type = Proto::TENSOR;
    if (attribute.has_g()) type = Proto::GRAPH;
    if (attribute.floats_size() > 0) type = Proto::FLOATS;
    if (attribute.ints_size() > 0) type = Proto::INTS;
    if (attribute.strings_size() > 0) type = Proto::STRINGS;
  }
  switch (type) {
    case Proto::FLOAT:
      return double{attribute.f()};
    case Proto::INT:
      return std::int64_t{attribute.i()};
    case Proto::STRING:
      return attribute.s();
    case Proto::TENSOR:
      return tensors_.read(attribute.t());
    case Proto::SPARSE_TENSOR:
      return tensors_.read(attribute.sparse_tensor());
    case Proto::FLOATS:
      return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
    case Proto::INTS:
      return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    case Proto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case Proto::GRAPH:
    case Proto::GRAPHS:
      throw_caller(ErrorCode::Unsupported, "operators with subgraphs are not supported (attribute '{}')",
                   attribute.name());
    case Proto::UNDEFINED:
    case Proto::TYPE_PROTO:
    case Proto::TENSORS:
    case Proto::SPARSE_TENSORS:
    case Proto::TYPE_PROTOS:
      break;
  }
  throw_caller(ErrorCode::Unsupported, "attribute '{}' is of a type that is not supported ({})",
               attribute.name(), static_cast<int>(type));
}

}  // namespace

graph::Graph import_model(const onnx::ModelProto& model, TensorReader& tensors, const LoadOptions& options) {
  return Importer(model, tensors, options).import();
}

}  // namespace kiln::frontend
