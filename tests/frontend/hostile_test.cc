// Damaged and malicious model files: every one is either loaded or refused with an error of the caller's.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <sys/stat.h>

#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using testing::ModelBuilder;

// A model with a bit of everything, some of it large enough to stay in the file.
ModelBuilder sample() {
  ModelBuilder builder(17, "local");
  builder.input("x", {"batch", 3, 8, 8});
  builder.floats("w", {4, 3, 3, 3}, std::vector<float>(108, 0.5F));
  auto& raw = builder.initializer("dense", {256, 10}, onnx::TensorProto::FLOAT);
  raw.set_raw_data(std::string(256 * 10 * 4, '\1'));
  builder.integers("shape", {2}, {0, -1});
  auto& function = *builder.model.add_functions();
  function.set_name("Twice");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("r");
  function.add_opset_import()->set_version(17);
  ModelBuilder::add_node(*function.mutable_node(), "Add", {"a", "a"}, {"r"});
  auto& conv = builder.node("Conv", {"x", "w"}, {"c"});
  testing::set_integers(conv, "pads", {1, 1, 1, 1});
  builder.node("Twice", {"c"}, {"t"}, "local");
  auto& pool = builder.node("MaxPool", {"t"}, {"p"});
  testing::set_integers(pool, "kernel_shape", {1, 1});
  builder.node("Reshape", {"p", "shape"}, {"flat"});
  auto& constant = builder.node("Constant", {}, {"half"});
  testing::set_number(constant, "value_float", 0.5F);
  builder.node("MatMul", {"flat", "dense"}, {"m"});
  builder.node("Mul", {"m", "half"}, {"y"});
  builder.output("y");
  return builder;
}

// Loads `bytes`; anything but a caller's error escapes and fails the test.
bool loads(const std::string& bytes) {
  try {
    load_model_bytes(std::as_bytes(std::span(bytes)), "/nonexistent");
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    return false;
  }
}

TEST(Hostile, TheSampleLoads) { EXPECT_TRUE(loads(sample().bytes())); }

TEST(Hostile, TruncatedModelsAreRefused) {
  const std::string bytes = sample().bytes();
  for (std::size_t length = 0; length < bytes.size(); length += 97) loads(bytes.substr(0, length));
  EXPECT_FALSE(loads(""));
  EXPECT_FALSE(loads(bytes.substr(0, bytes.size() / 2)));
}

TEST(Hostile, FlippedBytesDoNotCrash) {
  const std::string bytes = sample().bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    for (int flips = 1 + round % 3; flips > 0; --flips) {
      // Mostly outside the large tensor, which only holds numbers.
      const std::size_t span = round % 8 == 0 ? bytes.size() : 1200;
      std::size_t at = random() % span;
      if (round % 2 == 1) at = bytes.size() - 1 - at;
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << random() % 8));
    }
    loads(damaged);
  }
}

TEST(Hostile, RandomBytesAreRefused) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(random() % 400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    loads(bytes);
  }
}

TEST(Hostile, ExtentsThatOverflowAreRefused) {
  ModelBuilder builder(17);
  builder.initializer("huge", {INT64_MAX, INT64_MAX}, onnx::TensorProto::FLOAT);
  EXPECT_FALSE(loads(builder.bytes()));
  ModelBuilder sparse(17);
  auto* tensor = sparse.model.mutable_graph()->add_sparse_initializer();
  tensor->mutable_values()->set_name("sparse");
  tensor->mutable_values()->set_data_type(1);
  tensor->mutable_values()->add_dims(0);
  tensor->mutable_indices()->set_data_type(7);
  tensor->mutable_indices()->add_dims(0);
  tensor->add_dims(std::int64_t{1} << 40);
  EXPECT_FALSE(loads(sparse.bytes()));
}

TEST(Hostile, DeepNestingIsRefused) {
  ModelBuilder builder(17);
  onnx::GraphProto* graph = builder.model.mutable_graph();
  for (int i = 0; i < 5000; ++i) graph = graph->add_node()->add_attribute()->mutable_g();
  EXPECT_FALSE(loads(builder.bytes()));
}

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-model-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

TEST_F(ModelFolder, FilesThatAreNotModelsAreRefused) {
  const auto code = [](const std::filesystem::path& path, const LoadOptions& options = {}) {
    try {
      load_model(path.string(), options);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(path.filename().string()));
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code(folder / "absent.onnx"), ErrorCode::NotFound);
  ASSERT_EQ(::mkfifo((folder / "pipe.onnx").c_str(), 0600), 0);
  EXPECT_EQ(code(folder / "pipe.onnx"), ErrorCode::Io);
  std::filesystem::create_directory(folder / "folder.onnx");
  EXPECT_EQ(code(folder / "folder.onnx"), ErrorCode::Io);
  std::ofstream(folder / "text.onnx") << "this is not a model";
  EXPECT_EQ(code(folder / "text.onnx"), ErrorCode::InvalidModel);
  LoadOptions options;
  options.limits.model_bytes = 10;
  EXPECT_EQ(code(folder / "text.onnx", options), ErrorCode::LimitExceeded);
}

TEST_F(ModelFolder, ModelsAndTheirExternalDataAreMapped) {
  ModelBuilder builder = sample();
  auto& weights = *builder.model.mutable_graph()->mutable_initializer(1);
  std::ofstream(folder / "weights.bin", std::ios::binary) << std::string(256 * 10 * 4, '\1');
  weights.clear_raw_data();
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = weights.add_external_data();
  entry->set_key("location");
  entry->set_value("weights.bin");
  std::ofstream(folder / "model.onnx", std::ios::binary) << builder.bytes();
  const graph::Graph graph = load_model((folder / "model.onnx").string());
  const graph::Node& product = testing::first(graph, graph::OpKind::MatMul);
  const Tensor constant = graph.value(product.inputs[1]).constant.value();
  EXPECT_EQ(constant.extents(), (Extents{256, 10}));
  EXPECT_TRUE(std::all_of(constant.data(), constant.data() + constant.byte_size(),
                          [](std::byte byte) { return byte == std::byte{1}; }));
  const std::string bytes = builder.bytes();
  EXPECT_THROW(load_model_bytes(std::as_bytes(std::span(bytes)), ""), Error);
  EXPECT_NO_THROW(load_model_bytes(std::as_bytes(std::span(bytes)), folder.string()));
  // Mapped at the start of a page, not copied.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(constant.data()) % 4096, 0U);
}

}  // namespace
}  // namespace kiln::frontend
