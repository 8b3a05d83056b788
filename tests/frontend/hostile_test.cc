// Damaged and malicious model files: every one is either loaded or refused with an error of the caller's.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/kiln.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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

// --- what a Session makes of a Graph, compiling nothing

// The error of the caller's that making a Session throws, or "made".
std::string session_failure(const std::string& bytes) {
  Options options;
  options.cache = "off";
  try {
    Session::load_bytes(std::as_bytes(std::span(bytes)), "", options);
    return "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    return error.what();
  }
}

std::string session_failure(const ModelBuilder& builder) { return session_failure(builder.bytes()); }

ModelBuilder with_input(const std::vector<std::int64_t>& extents) {
  ModelBuilder builder(17);
  builder.input("x", {});
  auto* shape = builder.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  for (const std::int64_t extent : extents) shape->mutable_shape()->add_dim()->set_dim_value(extent);
  builder.output("y");
  return builder;
}

// The seeds of the fuzzer, and what it once broke the loader with.
TEST(Hostile, ModelsOfTheFuzzerAreLoadedOrRefused) {
  int made = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_DIR "/tests/fuzz/models")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    SCOPED_TRACE(entry.path());
    ++files;
    made += session_failure(bytes) == "made" ? 1 : 0;
  }
  EXPECT_GE(files, 10);
  EXPECT_GE(made, files / 2);
}

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(Hostile, ElementsBeyondCountingAreRefusedWithTheirPlace) {
  {
    ModelBuilder builder = with_input({kHuge, kHuge, 3});
    builder.node("Relu", {"x"}, {"y"});
    EXPECT_THAT(session_failure(builder), AllOf(HasSubstr("64-bit"), HasSubstr("value=x")));
  }
  for (const char* op : {"Flatten", "Shape", "Transpose"}) {
    ModelBuilder builder = with_input({kHuge, kHuge, kHuge});
    builder.node(op, {"x"}, {"y"});
    EXPECT_THAT(session_failure(builder), HasSubstr("64-bit")) << op;
  }
  {
    ModelBuilder builder = with_input({kHuge});
    builder.node("Concat", {"x", "x", "x"}, {"y"}).set_name("joins");
    testing::set(*builder.model.mutable_graph()->mutable_node(0), "axis", 0);
    EXPECT_THAT(session_failure(builder), AllOf(HasSubstr("64-bit"), HasSubstr("node=joins")));
  }
  for (const auto& [op, numbers] : {std::pair<std::string, std::vector<std::int64_t>>{"Pad", {kHuge, kHuge}},
                                    {"Tile", {kHuge}},
                                    {"Expand", {kHuge, 4}}}) {
    ModelBuilder builder = with_input({4});
    builder.integers("n", {static_cast<std::int64_t>(numbers.size())}, numbers);
    builder.node(op, {"x", "n"}, {"y"});
    EXPECT_THAT(session_failure(builder), HasSubstr("64-bit")) << op;
  }
  {
    ModelBuilder builder = with_input({1, 1, 8, 8});
    auto& pool = builder.node("MaxPool", {"x"}, {"y"});
    testing::set_integers(pool, "kernel_shape", {3, 3});
    testing::set_integers(pool, "strides", {kHuge, 1});
    EXPECT_THAT(session_failure(builder), AllOf(HasSubstr("strides"), HasSubstr("2147483647")));
  }
}

// Extents are polynomials of the inputs' sizes, which products and shape arithmetic can make long.
TEST(Hostile, ExtentExpressionsAreBounded) {
  ModelBuilder builder(17);
  builder.input("x", {"n"});
  std::string previous = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    builder.node("Shape", {previous}, {"s" + n});
    builder.node("Mul", {"s" + n, "s" + n}, {"t" + n});
    builder.node("Add", {"t" + n, "s" + n}, {"u" + n});
    builder.node("Expand", {previous, "u" + n}, {"e" + n});
    previous = "e" + n;
  }
  builder.output(previous);
  EXPECT_THAT(session_failure(builder), HasSubstr("dimension expression"));
}

TEST(Hostile, ConstantsDoNotExplode) {
  ModelBuilder builder = with_input({1});
  builder.floats("v0", {4}, {1, 2, 3, 4});
  for (int i = 0; i < 60; ++i) {
    const std::string v = "v" + std::to_string(i);
    auto& doubled = builder.node("Concat", {v, v}, {"v" + std::to_string(i + 1)});
    testing::set(doubled, "axis", 0);
  }
  builder.node("ReduceSum", {"v60"}, {"sum"});
  builder.node("Add", {"x", "sum"}, {"y"});
  EXPECT_EQ(session_failure(builder), "made");
}

// What a Session gives for x = [-1, 2].
std::vector<Tensor> run_on_minus_one_and_two(const ModelBuilder& builder) {
  const std::string bytes = builder.bytes();
  Options options;
  options.cache = "off";
  const Session session = Session::load_bytes(std::as_bytes(std::span(bytes)), "", options);
  const float values[] = {-1, 2};
  return session.run({{"x", Tensor::from(DType::F32, {2}, std::span<const float>(values))}});
}

TEST(Hostile, NodesThatNothingReadsAndEqualNamesAreFine) {
  ModelBuilder builder = with_input({2});
  builder.floats("unread", {2}, {1, 2});
  builder.node("Exp", {"x"}, {"dead"}).set_name("twin");
  builder.node("Add", {"dead", "unread"}, {"deader"}).set_name("twin");
  builder.node("Relu", {"x"}, {"y"}).set_name("twin");
  builder.output("y");  // the same value twice
  const auto results = run_on_minus_one_and_two(builder);
  ASSERT_EQ(results.size(), 2U);
  for (const Tensor& result : results) EXPECT_THAT(result.as<float>(), ::testing::ElementsAre(0, 2));
}

// The bodies of functions have names of their own, whatever the caller's are.
TEST(Hostile, FunctionsShadowNames) {
  ModelBuilder builder(17, "local");
  auto& function = *builder.model.add_functions();
  function.set_name("Step");
  function.set_domain("local");
  function.add_input("y");
  function.add_output("x");
  function.add_opset_import()->set_version(17);
  ModelBuilder::add_node(*function.mutable_node(), "Neg", {"y"}, {"w"});
  ModelBuilder::add_node(*function.mutable_node(), "Relu", {"w"}, {"x"});
  builder.input("x", {2}).floats("w", {2}, {10, 20});
  builder.node("Step", {"x"}, {"h"}, "local");
  builder.node("Add", {"h", "w"}, {"y"});
  builder.output("y");
  const auto results = run_on_minus_one_and_two(builder);
  EXPECT_THAT(results[0].as<float>(), ::testing::ElementsAre(11, 20));
}

TEST(Hostile, DeepFunctionCallsAreRefused) {
  ModelBuilder builder(17, "local");
  for (int i = 0; i < 1000; ++i) {
    auto& function = *builder.model.add_functions();
    function.set_name("f" + std::to_string(i));
    function.set_domain("local");
    function.add_input("a");
    function.add_output("r");
    function.add_opset_import()->set_version(17);
    auto* import = function.add_opset_import();
    import->set_domain("local");
    import->set_version(1);
    const std::string inner = i == 0 ? "Relu" : "f" + std::to_string(i - 1);
    ModelBuilder::add_node(*function.mutable_node(), inner, {"a"}, {"r"}, i == 0 ? "" : "local");
  }
  builder.input("x", {2});
  builder.node("f999", {"x"}, {"y"}, "local");
  builder.output("y");
  EXPECT_THAT(session_failure(builder), HasSubstr("nest deeper than 64"));
  builder.model.mutable_graph()->mutable_node(0)->set_op_type("f50");
  EXPECT_EQ(session_failure(builder), "made");
}

// --- files

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

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// A number as protobuf writes it.
std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text.push_back(static_cast<char>(value | 0x80));
  text.push_back(static_cast<char>(value));
  return text;
}

// Sparse files: what is not read takes neither disk nor memory.
constexpr std::int64_t kLargeElements = std::int64_t{3} << 28;  // 3 GiB of f32

ModelBuilder sum_of_large() {
  ModelBuilder builder(17);
  builder.integers("at", {2}, {0, kLargeElements - 1});
  builder.node("Gather", {"large", "at"}, {"y"});
  builder.output("y");
  return builder;
}

void check_large(const std::filesystem::path& model, float last) {
  const std::int64_t before = resident_bytes();
  const graph::Graph graph = load_model(model.string());
  const graph::Node& gather = testing::first(graph, graph::OpKind::Gather);
  const Tensor large = graph.value(gather.inputs[0]).constant.value();
  ASSERT_EQ(large.elements(), kLargeElements);
  EXPECT_EQ(large.as<float>().front(), 0);
  EXPECT_EQ(large.as<float>().back(), last);
  EXPECT_LT(resident_bytes() - before, 1 << 28);
}

TEST_F(ModelFolder, ExternalDataBeyondTwoGigabytesAreMapped) {
  ModelBuilder builder = sum_of_large();
  auto& large = builder.initializer("large", {kLargeElements}, onnx::TensorProto::FLOAT);
  large.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::int64_t offset = std::int64_t{5} << 30;
  for (const auto& [key, text] :
       {std::pair{"location", std::string("weights.bin")}, {"offset", std::to_string(offset)}}) {
    auto* entry = large.add_external_data();
    entry->set_key(key);
    entry->set_value(text);
  }
  {
    std::ofstream file(folder / "weights.bin", std::ios::binary);
    file.seekp(offset + 4 * (kLargeElements - 1));
    const float last = 7;
    file.write(reinterpret_cast<const char*>(&last), 4);
  }
  std::ofstream(folder / "model.onnx", std::ios::binary) << builder.bytes();
  check_large(folder / "model.onnx", 7);
}

// Protobuf alone reads no message of this size.
TEST_F(ModelFolder, ModelsBeyondTwoGigabytesAreMapped) {
  ModelBuilder named(17);
  named.initializer("large", {kLargeElements}, onnx::TensorProto::FLOAT);
  const std::uint64_t bytes = 4 * static_cast<std::uint64_t>(kLargeElements);
  const std::string tensor = named.model.graph().initializer(0).SerializeAsString() + "\x4a" + varint(bytes);
  const std::string graph = "\x2a" + varint(tensor.size() + bytes) + tensor;
  const std::string field = "\x3a" + varint(graph.size() + bytes) + graph;
  ModelBuilder rest = sum_of_large();
  rest.model.set_producer_name("kiln");
  // Elements are read where they lie if they are aligned, as the writers of large models see to.
  while ((rest.bytes().size() + field.size()) % 4 != 0) rest.model.mutable_producer_name()->push_back('.');
  {
    std::ofstream file(folder / "model.onnx", std::ios::binary);
    file << rest.bytes() << field;
    file.seekp(static_cast<std::streamoff>(bytes) - 4, std::ios::cur);
    const float last = 8;
    file.write(reinterpret_cast<const char*>(&last), 4);
  }
  check_large(folder / "model.onnx", 8);
}

}  // namespace
}  // namespace kiln::frontend
