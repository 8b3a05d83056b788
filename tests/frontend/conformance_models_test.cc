// The models of ONNX's conformance suite, where Debian's libonnx-testdata or KILN_ONNX_TESTS has them: each
// loads with the declared types and shapes, or is refused as unsupported.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <kiln/error.h>
#include <onnx/onnx_pb.h>

#include "frontend/onnx/loader.h"
#include "frontend/onnx/tensor_reader.h"

namespace kiln::frontend {
namespace {

std::filesystem::path conformance_models() {
  const char* folder = std::getenv("KILN_ONNX_TESTS");
  return folder != nullptr ? folder : "/usr/share/libonnx-testdata/data";
}

Container container_of(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) {
    return type.sequence_type().elem_type().has_map_type() ? Container::MapSequence : Container::Sequence;
  }
  if (type.has_map_type()) return Container::Map;
  if (!type.has_optional_type()) return Container::Tensor;
  return type.optional_type().elem_type().has_sequence_type() ? Container::OptionalSequence
                                                              : Container::Optional;
}

// What contradicts the declared outputs. A dim that the graph cannot tell before running contradicts nothing.
std::string contradiction(const onnx::ModelProto& model, const graph::Graph& graph) {
  for (int i = 0; i < model.graph().output_size(); ++i) {
    const auto& declared = model.graph().output(i);
    const graph::Value& value = graph.value(graph.outputs.at(static_cast<std::size_t>(i)));
    if (const Container container = container_of(declared.type()); container != value.container) {
      return declared.name() + " is a " + std::string(name(value.container));
    }
    if (value.container != Container::Tensor) continue;
    const auto& type = declared.type().tensor_type();
    if (dtype_from_onnx(type.elem_type()) != value.dtype) {
      return declared.name() + " is " + std::string(name(value.dtype));
    }
    if (!type.has_shape() || !value.shape) continue;
    if (static_cast<std::size_t>(type.shape().dim_size()) != value.shape->size()) {
      return declared.name() + " has rank " + std::to_string(value.shape->size());
    }
    for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
      const auto& want = type.shape().dim(axis);
      const graph::Dim& got = (*value.shape)[static_cast<std::size_t>(axis)];
      if (want.has_dim_value() && got.is_constant() && got.constant() != want.dim_value()) {
        return declared.name() + " has the extent " + std::to_string(got.constant()) + " on axis " +
               std::to_string(axis) + ", declared " + std::to_string(want.dim_value());
      }
    }
  }
  return {};
}

TEST(ConformanceModels, LoadAsDeclaredOrAreUnsupported) {
  if (!std::filesystem::is_directory(conformance_models())) GTEST_SKIP() << "no " << conformance_models();
  const bool report = std::getenv("KILN_REPORT") != nullptr;
  std::map<std::string, int> refused;
  int loaded = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(conformance_models())) {
    if (entry.path().filename() != "model.onnx") continue;
    const std::string test = entry.path().parent_path().filename();
    onnx::ModelProto model;
    std::ifstream file(entry.path(), std::ios::binary);
    ASSERT_TRUE(model.ParseFromIstream(&file)) << test;
    try {
      const graph::Graph graph = load_model(entry.path());
      EXPECT_EQ(contradiction(model, graph), "") << test;
      LoadOptions hidden;
      hidden.hide_dims = true;
      EXPECT_EQ(contradiction(model, load_model(entry.path(), hidden)), "") << test << " with hidden dims";
      ++loaded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported) << test << ": " << error.what();
      ++refused[error.message()];
      if (report) std::printf("%s: %s\n", test.c_str(), error.what());
    }
  }
  for (const auto& [message, count] : refused) {
    if (report) std::printf("%5d %s\n", count, message.c_str());
  }
  std::printf("%d models loaded\n", loaded);
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace kiln::frontend
