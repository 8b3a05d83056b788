// A model of one node whose inputs are fed as graph inputs, run by the reference kernels.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/graph/contract.h"
#include "kernels_ref/reference.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend::testing {

class SingleNode {
 public:
  SingleNode(std::int64_t opset, const std::string& op, const std::string& domain = {},
             std::int64_t domain_version = 1)
      : builder_(opset, domain, domain_version) {
    builder_.node(op, {}, {}, domain);
  }

  onnx::NodeProto& node() { return *builder_.model.mutable_graph()->mutable_node(0); }

  SingleNode& absent() {
    node().add_input("");
    return *this;
  }
  // `type` is ONNX's number of the element type.
  template <typename T>
  SingleNode& with(DType dtype, int type, const Extents& extents, const std::vector<T>& values) {
    const std::string name = "x" + std::to_string(node().input_size());
    std::vector<DimSpec> dims;
    for (const std::int64_t extent : extents) dims.emplace_back(static_cast<int>(extent));
    builder_.input(name, dims, type);
    node().add_input(name);
    inputs_.push_back(Tensor::from(dtype, extents, std::span<const T>(values)));
    return *this;
  }
  SingleNode& floats(const Extents& extents, const std::vector<float>& values) {
    return with(DType::F32, onnx::TensorProto::FLOAT, extents, values);
  }
  SingleNode& integers(const Extents& extents, const std::vector<std::int64_t>& values) {
    return with(DType::I64, onnx::TensorProto::INT64, extents, values);
  }
  SingleNode& bytes(const Extents& extents, const std::vector<std::uint8_t>& values) {
    return with(DType::U8, onnx::TensorProto::UINT8, extents, values);
  }
  SingleNode& strings(const Extents& extents, const std::vector<std::string>& values) {
    return with(DType::String, onnx::TensorProto::STRING, extents, values);
  }

  // Inputs that are constants.
  SingleNode& constant(const std::vector<std::int64_t>& values) {
    builder_.integers(constant_name(), {static_cast<std::int64_t>(values.size())}, values);
    return *this;
  }
  SingleNode& constant_floats(const std::vector<float>& values) {
    builder_.floats(constant_name(), {static_cast<std::int64_t>(values.size())}, values);
    return *this;
  }
  // An output beside the first; absent if it has no name.
  SingleNode& output(const std::string& name) {
    add_outputs(1);
    node().add_output(name);
    if (!name.empty()) builder_.output(name);
    return *this;
  }
  graph::Graph load(int outputs = 1) {
    add_outputs(outputs);
    return builder_.load();
  }
  // The outputs, which are the same while not even the ranks of the inputs are known, unless each run draws
  // anew.
  std::vector<Tensor> run(int outputs = 1) {
    const graph::Graph graph = load(outputs);
    std::vector<Tensor> known = reference::evaluate(graph, inputs_, {});
    for (const graph::NodeId id : graph.topological_order()) {
      if (graph::contract(graph.node(id).op).fusion == graph::FusionClass::Random) return known;
    }
    LoadOptions hiding;
    hiding.hide_rank = true;
    const std::vector<Tensor> unknown = reference::evaluate(builder_.load(hiding), inputs_, {});
    for (std::size_t i = 0; i < known.size(); ++i) EXPECT_EQ(known[i], unknown[i]) << "output " << i;
    return known;
  }
  Tensor result() { return run().at(0); }
  std::vector<float> result_floats() { return elements<float>(result()); }

  // The code of the Error that loading throws, or nothing.
  std::optional<ErrorCode> load_error() {
    try {
      load();
    } catch (const Error& error) {
      return error.code();
    }
    return std::nullopt;
  }

  template <typename T>
  static std::vector<T> elements(const Tensor& tensor) {
    const auto values = tensor.as<T>();
    return {values.begin(), values.end()};
  }

 private:
  void add_outputs(int count) {
    while (node().output_size() < count) {
      const std::string name = "y" + std::to_string(node().output_size());
      node().add_output(name);
      builder_.output(name);
    }
  }
  std::string constant_name() {
    node().add_input("c" + std::to_string(node().input_size()));
    return node().input(node().input_size() - 1);
  }

  ModelBuilder builder_;
  std::vector<Tensor> inputs_;
};

inline void set_texts(onnx::NodeProto& node, const std::string& name,
                      const std::vector<std::string>& values) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
}

inline onnx::TensorProto& set_tensor(onnx::NodeProto& node, const std::string& name, std::int64_t size,
                                     int type) {
  auto& attribute = set(node, name);
  attribute.set_type(onnx::AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(type);
  attribute.mutable_t()->add_dims(size);
  return *attribute.mutable_t();
}

}  // namespace kiln::frontend::testing
