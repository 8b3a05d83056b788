// Builds small ONNX models for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <kiln/error.h>
#include <onnx/onnx_pb.h>

#include "frontend/onnx/loader.h"
#include "ir/graph/graph.h"

namespace kiln::frontend::testing {

// An extent, or the name of a symbol; an empty name declares nothing.
using DimSpec = std::variant<int, const char*>;

class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset, const std::string& domain = {}, std::int64_t domain_version = 1) {
    model.set_ir_version(8);
    import_opset("", opset);
    if (!domain.empty()) import_opset(domain, domain_version);
    model.mutable_graph()->set_name("test");
  }

  void import_opset(const std::string& domain, std::int64_t version) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }

  static void set_type(onnx::ValueInfoProto& info, const std::string& name, const std::vector<DimSpec>& dims,
                       int data_type) {
    info.set_name(name);
    auto* tensor = info.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(data_type);
    auto* shape = tensor->mutable_shape();
    for (const DimSpec& dim : dims) {
      auto* added = shape->add_dim();
      if (const int* extent = std::get_if<int>(&dim)) added->set_dim_value(*extent);
      if (const char* const* symbol = std::get_if<const char*>(&dim); symbol != nullptr && **symbol != '\0') {
        added->set_dim_param(*symbol);
      }
    }
  }

  ModelBuilder& input(const std::string& name, const std::vector<DimSpec>& dims,
                      int data_type = onnx::TensorProto::FLOAT) {
    set_type(*model.mutable_graph()->add_input(), name, dims, data_type);
    return *this;
  }

  ModelBuilder& output(const std::string& name) {
    model.mutable_graph()->add_output()->set_name(name);
    return *this;
  }

  onnx::TensorProto& initializer(const std::string& name, const std::vector<std::int64_t>& dims,
                                 int data_type) {
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(data_type);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }

  ModelBuilder& floats(const std::string& name, const std::vector<std::int64_t>& dims,
                       const std::vector<float>& values) {
    auto& tensor = initializer(name, dims, onnx::TensorProto::FLOAT);
    for (const float value : values) tensor.add_float_data(value);
    return *this;
  }

  ModelBuilder& integers(const std::string& name, const std::vector<std::int64_t>& dims,
                         const std::vector<std::int64_t>& values) {
    auto& tensor = initializer(name, dims, onnx::TensorProto::INT64);
    for (const std::int64_t value : values) tensor.add_int64_data(value);
    return *this;
  }

  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& domain = {}) {
    return add_node(*model.mutable_graph()->mutable_node(), op, inputs, outputs, domain);
  }

  static onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                                   const std::string& op, const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs, const std::string& domain = {}) {
    auto& node = *nodes.Add();
    node.set_op_type(op);
    node.set_domain(domain);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    return node;
  }

  std::string bytes() const { return model.SerializeAsString(); }

  graph::Graph load(const LoadOptions& options = {}) const {
    const std::string text = bytes();
    return load_model_bytes(std::as_bytes(std::span(text)), ".", options);
  }

  onnx::ModelProto model;
};

inline onnx::AttributeProto& set(onnx::NodeProto& node, const std::string& name) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  return attribute;
}
inline void set(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}
inline void set_number(onnx::NodeProto& node, const std::string& name, float value) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}
inline void set_text(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}
inline void set_integers(onnx::NodeProto& node, const std::string& name,
                         const std::vector<std::int64_t>& values) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}
inline void set_numbers(onnx::NodeProto& node, const std::string& name, const std::vector<float>& values) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
}

// An attribute that holds a graph of the same name, which is returned empty.
inline onnx::GraphProto& graph_attribute(onnx::NodeProto& node, const std::string& name) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->set_name(name);
  return *attribute.mutable_g();
}

// "Unsqueeze Add": the operators in topological order.
inline std::string operators_of(const graph::Graph& graph) {
  std::string text;
  for (const graph::NodeId id : graph.topological_order()) {
    if (!text.empty()) text += ' ';
    text += graph::name(graph.node(id).op);
  }
  return text;
}

// The first node of this kind.
inline const graph::Node& first(const graph::Graph& graph, graph::OpKind kind) {
  for (const graph::NodeId id : graph.topological_order()) {
    if (graph.node(id).op == kind) return graph.node(id);
  }
  throw Error(ErrorKind::Bug, ErrorCode::Internal, "no such node in the graph");
}

// Elements of a constant operand.
inline std::vector<std::int64_t> integers_of(const graph::Graph& graph, const graph::Node& node,
                                             std::size_t input) {
  return graph.value(node.inputs.at(input)).constant.value().to_integers();
}
inline std::vector<float> floats_of(const graph::Graph& graph, const graph::Node& node, std::size_t input) {
  const auto values = graph.value(node.inputs.at(input)).constant.value().as<float>();
  return {values.begin(), values.end()};
}

// "batch x 4": the shape of a Value by its symbols' names, "?" where the rank is unknown.
inline std::string shape_of(const graph::Graph& graph, graph::ValueId id) {
  const auto& shape = graph.value(id).shape;
  if (!shape) return "?";
  std::string text;
  for (const graph::Dim& dim : *shape) {
    if (!text.empty()) text += " x ";
    text += dim.to_string([&](graph::SymbolId symbol) { return graph.symbol_name(symbol); });
  }
  return text;
}

}  // namespace kiln::frontend::testing
