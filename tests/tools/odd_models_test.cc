// The command on models with odd names, odd numbers, and outputs that are not what they declare.
#include <cmath>

#include <fmt/format.h>
#include <kiln/kiln.h>
#include <kiln/tensor_file.h>

#include "tests/frontend/model_builder.h"
#include "tests/tools/command_runner.h"

namespace kiln::tools {
namespace {

using frontend::testing::ModelBuilder;
using frontend::testing::set;

class OddModels : public CommandTest {
 protected:
  std::string write(const ModelBuilder& model, const std::string& name = "model.onnx") const {
    std::ofstream(path(name), std::ios::binary) << model.bytes();
    return path(name);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(OddModels, NamesCannotSpeakToTheTerminal) {
  const std::string name = "evil\x1b[2J\nname";
  ModelBuilder model(18);
  model.input(name, {name.c_str()});
  model.node("Neg", {name}, {name + "out"}).set_name(name);
  model.output(name + "out");
  const std::string file = write(model);
  const std::string dim = name + "=3";
  std::vector<CommandResult> results = {kiln({"run", file}),
                                        kiln({"run", file, "--dim", dim}),
                                        kiln({"run", file, "--dim", name}),
                                        kiln({"run", file, "--dim", dim, "--verbose", "--cache", "off"}),
                                        kiln({"run", file, "--input", "\x1b=" + file}),
                                        kiln({"explain", file, "--filter", "\x1b\x1b"})};
  for (const char* stage : {"graph", "regions", "plan", "tile"})
    results.push_back(kiln({"explain", file, "--stage", stage, "--dim", dim}));
  for (const CommandResult& result : results) {
    EXPECT_FALSE(has(result.out + result.err, "\x1b")) << result.out << result.err;
    EXPECT_TRUE(has(result.out + result.err, "\\x1b")) << result.out << result.err;
  }
  succeed({"run", file, "--dim", dim, "--output-dir", path("out")});
  EXPECT_EQ(read_tensor(path("out/evil__2J_nameout.npy")).extents(), (Extents{3}));
}

TEST_F(OddModels, NamesThatMakeTheSameFileNameGetFilesOfTheirOwn) {
  ModelBuilder model(18);
  model.input("x", {2});
  model.node("Neg", {"x"}, {"a/b"});
  model.node("Abs", {"x"}, {"a_b"});
  model.output("a/b").output("a_b");
  succeed({"run", write(model), "--output-dir", path("out")});
  const Tensor negative = read_tensor(path("out/a_b.npy")), absolute = read_tensor(path("out/a_b_.npy"));
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_EQ(std::abs(negative.number(i)), absolute.number(i)) << i;
}

TEST_F(OddModels, EveryNumericOutputShowsItsRange) {
  ModelBuilder model(18);
  model.input("x", {"n"});
  const std::vector<std::pair<std::string, int>> casts = {
      {"f64", onnx::TensorProto::DOUBLE},    {"f16", onnx::TensorProto::FLOAT16},
      {"bf16", onnx::TensorProto::BFLOAT16}, {"i8", onnx::TensorProto::INT8},
      {"i32", onnx::TensorProto::INT32},     {"i64", onnx::TensorProto::INT64},
      {"u8", onnx::TensorProto::UINT8},      {"i1", onnx::TensorProto::BOOL}};
  for (const auto& [name, type] : casts) {
    set(model.node("Cast", {"x"}, {name}), "to", std::int64_t{type});
    model.output(name);
  }
  model.integers("large", {2}, {9007199254740993, -9223372036854775807 - 1});
  model.output("large");
  const std::vector<float> values = {1, 2, 6};
  write_tensor(path("x.npy"), Tensor::from<float>(DType::F32, {3}, values));
  const std::string out = succeed({"run", write(model), "--input", "x=" + path("x.npy").string()});
  for (const auto& [name, type] : casts) {
    const std::string range = name == "i1" ? "min 1  max 1  mean 1" : "min 1  max 6  mean 3";
    EXPECT_TRUE(has(out, fmt::format("{}: {} 3  {}\n", name, name, range))) << name << "\n" << out;
  }
  EXPECT_TRUE(has(out, "large: i64 2  min -9223372036854775808  max 9007199254740993  mean ")) << out;
}

TEST_F(OddModels, NaNIsCountedApart) {
  ModelBuilder model(18);
  model.input("x", {"n"});
  model.node("Sqrt", {"x"}, {"y"});
  model.output("y");
  const std::string file = write(model);
  const auto run_on = [&](const std::vector<float>& values) {
    write_tensor(path("x.npy"),
                 Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(values.size())}, values));
    return succeed({"run", file, "--input", "x=" + path("x.npy").string()});
  };
  EXPECT_TRUE(has(run_on({-1, -4}), "y: f32 2  all NaN\n"));
  EXPECT_TRUE(has(run_on({-1, 4, 16}), "y: f32 3  min 2  max 4  mean 3  NaN 1\n"));
  EXPECT_TRUE(has(run_on({HUGE_VALF}), "y: f32 1  min inf  max inf  mean inf\n"));
  EXPECT_TRUE(has(run_on({}), "y: f32 0\n"));
}

TEST_F(OddModels, RandomInputsAreNamedWhenTheyFail) {
  ModelBuilder model(18);
  model.input("ids", {2}, onnx::TensorProto::INT64).input("table", {"n"});
  model.node("Gather", {"table", "ids"}, {"y"}).set_name("look_up");
  model.output("y");
  const std::string file = write(model);
  for (const char* kernels : {"generated", "reference"}) {
    const CommandResult result = kiln({"run", file, "--dim", "n=1", "--kernels", kernels});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(has(result.err, "look_up")) << result.err;
    EXPECT_TRUE(has(result.err, "kiln made random values for ids, table; give your own with --input"))
        << result.err;
  }
  write_tensor(path("ids.npy"), Tensor::from_integers(std::vector<std::int64_t>{0, 7}));
  write_tensor(path("table.npy"), Tensor(DType::F32, {1}));
  const CommandResult own = kiln({"run", file, "--input", "ids=" + path("ids.npy").string(), "--input",
                                  "table=" + path("table.npy").string()});
  EXPECT_EQ(own.status, 1);
  EXPECT_FALSE(has(own.err, "random")) << own.err;
}

TEST_F(OddModels, RandomInputsAreNotNamedWhereExtentsAreWrong) {
  ModelBuilder model(18);
  model.input("a", {"n"}).input("b", {"m"}).input("c", {"m"}, onnx::TensorProto::INT64);
  model.node("Exp", {"a"}, {"e"});
  model.node("Add", {"e", "b"}, {"y"});
  model.node("Neg", {"c"}, {"z"});
  model.output("y").output("z");
  const std::string file = write(model);
  const std::vector<std::vector<std::string>> wrong = {{"--dim", "n=2", "--dim", "m=3"},
                                                       {"--shape", "a:2x2", "--dim", "m=3"}};
  for (const auto& dims : wrong) {
    for (const char* kernels : {"generated", "reference"}) {
      std::vector<std::string> words = {"run", file, "--kernels", kernels};
      words.insert(words.end(), dims.begin(), dims.end());
      const CommandResult result = kiln(words);
      EXPECT_EQ(result.status, 1);
      EXPECT_TRUE(has(result.err, "2")) << result.err;
      EXPECT_FALSE(has(result.err, "random")) << result.err;
    }
  }
}

// x + bias, which is [10, 20] unless given.
ModelBuilder with_default() {
  ModelBuilder model(18);
  model.input("bias", {2}).input("x", {"n", 2}).floats("bias", {2}, {10, 20});
  model.node("Add", {"x", "bias"}, {"y"});
  return model.output("y");
}

TEST_F(OddModels, FilesReplaceDefaults) {
  const std::string file = write(with_default());
  const auto tensor = [](const Extents& extents, const std::vector<float>& values) {
    return Tensor::from<float>(DType::F32, extents, values);
  };
  write_tensor(path("x.npy"), tensor({1, 2}, {1, 2}));
  write_tensor(path("bias.npy"), tensor({2}, {-1, -2}));
  const std::string x = "x=" + path("x.npy").string(), bias = "bias=" + path("bias.npy").string();
  EXPECT_TRUE(has(succeed({"run", file, "--input", x}), "y: f32 1x2  min 11  max 22"));
  EXPECT_TRUE(has(succeed({"run", file, "--input", x, "--input", bias}), "y: f32 1x2  min 0  max 0"));
  EXPECT_TRUE(has(succeed({"bench", file, "--input", bias, "--dim", "n=3", "--iterations", "2"}), "median"));
  fail({"run", file, "--dim", "n=1", "--input", "bais=" + path("x.npy").string()}, 1,
       "no input bais; its inputs are: x; 1 more have a default value");
  fail({"run", file, "--dim", "n=1", "--shape", "bias:2"}, 1, "no input bias; its inputs are: x");
}

// A test's files name the default that they replace; those that are too many are an error.
TEST_F(OddModels, VerifyReplacesDefaults) {
  const auto tensor = [](const Extents& extents, const std::vector<float>& values) {
    return Tensor::from<float>(DType::F32, extents, values);
  };
  const std::filesystem::path folder = path("test"), data = folder / "test_data_set_0";
  std::filesystem::create_directories(data);
  std::ofstream(folder / "model.onnx", std::ios::binary) << with_default().bytes();
  write_tensor(data / "input_0.pb", tensor({1, 2}, {1, 2}), "x");
  write_tensor(data / "output_0.pb", tensor({1, 2}, {11, 22}), "y");
  EXPECT_TRUE(has(succeed({"verify", folder}), "1 passed, 0 failed"));
  write_tensor(data / "output_0.pb", tensor({1, 2}, {0, 7}), "y");
  EXPECT_EQ(kiln({"verify", folder}).status, 1);
  const Tensor bias = tensor({2}, {-1, 5}), x = tensor({1, 2}, {1, 2});
  for (const bool as_listed : {false, true}) {
    write_tensor(data / (as_listed ? "input_1.pb" : "input_0.pb"), x, "x");
    write_tensor(data / (as_listed ? "input_0.pb" : "input_1.pb"), bias, "bias");
    for (const char* mode : {"--rtol=0", "--dynamic", "--dynamic-rank", "--as-initializers"})
      EXPECT_TRUE(has(succeed({"verify", folder, mode}), "1 passed, 0 failed")) << mode;
  }
  write_tensor(data / "input_2.pb", x, "x");
  EXPECT_TRUE(has(kiln({"verify", folder}).out, "3 files input_K.pb, but the model has 1 inputs and 1 with"));
}

TEST_F(OddModels, OutputsThatAreNotAsDeclaredAreWarnedOf) {
  ModelBuilder model(18);
  model.input("x", {2});
  model.node("Neg", {"x"}, {"y"});
  ModelBuilder::set_type(*model.model.mutable_graph()->add_output(), "y", {3}, onnx::TensorProto::DOUBLE);
  const CommandResult result = kiln({"run", write(model)});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "kiln: warning: output y is declared as f64[3], but the nodes make it f32[2]\n");
  EXPECT_TRUE(result.out.starts_with("y: f32 2  min ")) << result.out;
}

TEST_F(OddModels, ExplainSaysWhenNothingIsLeft) {
  ModelBuilder model(18);
  model.floats("c", {1}, {1}).output("c");
  const std::string file = write(model);
  EXPECT_TRUE(succeed({"explain", file}).starts_with("nothing is left to compile"));
  EXPECT_EQ(succeed({"run", file}),
            "c: f32 1  min 1  max 1  mean 1\n"
            "0 kernels compiled, 0 from the cache, 0 nodes on reference kernels\n");
}

TEST_F(OddModels, VerifyCountsFiles) {
  ModelBuilder model(18);
  model.input("x", {2});
  model.node("Neg", {"x"}, {"y"});
  model.output("y");
  std::filesystem::create_directories(path("test/test_data_set_0"));
  write(model, "test/model.onnx");
  for (const char* file : {"input_0.pb", "input_1.pb", "output_0.pb"})
    write_tensor(path(std::string("test/test_data_set_0/") + file), Tensor(DType::F32, {2}));
  const CommandResult result = kiln({"verify", path("test")});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.out, "has 2 files input_K.pb, but the model has 1 inputs")) << result.out;
}

}  // namespace
}  // namespace kiln::tools
