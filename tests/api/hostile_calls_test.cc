// What a program does wrong with the C++ API: each is a clear Error, and none a crash.
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/cache.h>
#include <kiln/kernel.h>
#include <kiln/kiln.h>
#include <kiln/tensor_file.h>

#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using frontend::testing::ModelBuilder;
using frontend::testing::set;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt64 = onnx::TensorProto::INT64,
              kString = onnx::TensorProto::STRING;
constexpr KernelChoice kKernels[] = {KernelChoice::Generated, KernelChoice::Reference,
                                     KernelChoice::Reference64};

Session load(const ModelBuilder& model, Options options = {}) {
  if (options.cache.empty()) options.cache = "off";
  const std::string bytes = model.bytes();
  return Session::load_bytes(std::as_bytes(std::span(bytes)), "", options);
}

Session load(const ModelBuilder& model, KernelChoice kernels) {
  Options options;
  options.kernels = kernels;
  return load(model, options);
}

// y = x + x
ModelBuilder doubling() {
  ModelBuilder model(18);
  model.input("x", {"batch", 3});
  model.node("Add", {"x", "x"}, {"y"});
  model.output("y");
  return model;
}

// The Error that `body` throws; fails without one, and at one that blames Kiln.
Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::Bug) << error.what();
    return error;
  }
  ADD_FAILURE() << "no Error";
  return {ErrorKind::Bug, ErrorCode::Internal, ""};
}

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& body) {
  const Error error = error_of(body);
  EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(text));
}

Tensor ones(Extents extents) {
  Tensor tensor(DType::F32, std::move(extents));
  for (float& value : tensor.as_mutable<float>()) value = 1;
  return tensor;
}

// NOLINTBEGIN(bugprone-use-after-move): what is left behind is what these tests are about
TEST(MovedFromSession, AnswersWithAnError) {
  for (const KernelChoice kernels : kKernels) {
    Session session = load(doubling(), kernels);
    const Session other = std::move(session);
    std::vector<Tensor> inputs = {ones({2, 3})}, outputs = {ones({2, 3})};
    const std::vector<Extents> extents = {{2, 3}};
    const std::vector<std::function<void()>> calls = {
        [&] { session.inputs(); },
        [&] { session.outputs(); },
        [&] { session.run({{"x", inputs[0]}}); },
        [&] { session.run(std::vector<NamedTensor>{{"x", inputs[0]}}); },
        [&] { session.run(std::vector<NamedDatum>{{"x", inputs[0]}}); },
        [&] { session.run(inputs, outputs); },
        [&] { (void)session.output_extents(extents); },
        [&] { (void)session.stats(); },
        [&] { (void)session.threads(); },
        [&] { (void)session.explain("graph", "", {}); },
    };
    for (const auto& call : calls) expect_error(ErrorCode::InvalidArgument, "was moved from", call);
    EXPECT_EQ(other.inputs().size(), 1U);
    session = load(doubling(), kernels);
    EXPECT_EQ(session.inputs().size(), 1U);
  }
}

TEST(MovedFromTensor, HasNoElements) {
  Tensor tensor = ones({2, 3});
  const Tensor other = std::move(tensor);
  EXPECT_EQ(other.elements(), 6);
  EXPECT_EQ(tensor.elements(), 0);
  EXPECT_EQ(tensor.data(), nullptr);
  EXPECT_TRUE(tensor.as<float>().empty());
  EXPECT_FALSE(tensor.owns_memory());
  EXPECT_EQ(tensor.copy().elements(), 0);
  EXPECT_TRUE(tensor == Tensor());
  EXPECT_FALSE(tensor == Tensor(DType::F32, {}));
  expect_error(ErrorCode::IndexOutOfRange, "element 0", [&] { (void)tensor.number(0); });
  Tensor& self = tensor;
  tensor = ones({2});
  tensor = std::move(self);
  EXPECT_EQ(tensor.elements(), 2);
}

TEST(TensorFromValues, NeedsValuesOfTheElementsSize) {
  const std::vector<float> floats = {1, 2};
  const std::vector<std::uint8_t> bytes = {1, 2};
  const std::vector<std::string> strings = {"a", "b"};
  EXPECT_EQ(Tensor::from<float>(DType::I32, {2}, floats).elements(), 2);
  EXPECT_EQ(Tensor::from<std::string>(DType::String, {2}, strings).as<std::string>()[1], "b");
  expect_error(ErrorCode::ShapeMismatch, "3 elements wanted",
               [&] { (void)Tensor::from<float>(DType::F32, {3}, floats); });
  for (const DType dtype : {DType::F64, DType::F16, DType::String, DType::I4})
    expect_error(ErrorCode::TypeMismatch, std::string(name(dtype)),
                 [&] { (void)Tensor::from<float>(dtype, {2}, floats); });
  for (const DType dtype : {DType::I4, DType::U2, DType::F4E2M1, DType::F32, DType::C64, DType::String})
    expect_error(ErrorCode::TypeMismatch, std::string(name(dtype)),
                 [&] { (void)Tensor::from<std::uint8_t>(dtype, {2}, bytes); });
  expect_error(ErrorCode::TypeMismatch, "strings",
               [&] { (void)Tensor::from<std::string>(DType::F32, {2}, strings); });
}

TEST(MovedFromDatum, IsNothing) {
  Datum tensor(ones({2})), sequence(Sequence{DType::F32, {ones({1})}}),
      map(Map{Tensor::from_integers(std::vector<std::int64_t>{1}), ones({1})});
  for (Datum* datum : {&tensor, &sequence, &map}) {
    const Datum other = std::move(*datum);
    EXPECT_TRUE(other.has_value());
    EXPECT_FALSE(datum->has_value());
    EXPECT_EQ(to_string(*datum), "nothing");
    expect_error(ErrorCode::TypeMismatch, "expected a sequence", [&] { (void)datum->sequence(); });
  }
}
// NOLINTEND(bugprone-use-after-move)

TEST(NullViews, AreRefusedUnlessEmpty) {
  expect_error(ErrorCode::InvalidArgument, "null pointer, expected 24 bytes",
               [] { (void)Tensor::view(DType::F32, {2, 3}, nullptr); });
  expect_error(ErrorCode::InvalidArgument, "null pointer",
               [] { (void)Tensor::view(DType::I4, {1}, nullptr); });
  expect_error(ErrorCode::InvalidArgument, "null pointer",
               [] { (void)Tensor(DType::String, {1}, nullptr, nullptr); });
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(doubling(), kernels);
    const Tensor empty = Tensor::view(DType::F32, {0, 3}, nullptr);
    EXPECT_EQ(session.run({{"x", empty}})[0].extents(), (Extents{0, 3}));
    std::vector<Tensor> inputs = {empty}, outputs = {empty};
    session.run(inputs, outputs);
  }
}

TEST(Tensors, RefuseWhatMemoryCannotHold) {
  std::byte byte{};
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  expect_error(ErrorCode::LimitExceeded, "negative", [&] { (void)Tensor(DType::F32, {-1}); });
  expect_error(ErrorCode::LimitExceeded, "negative", [&] { (void)Tensor::view(DType::F32, {2, -3}, &byte); });
  expect_error(ErrorCode::LimitExceeded, "overflow", [&] { (void)Tensor(DType::F32, {kMost, 2}); });
  expect_error(ErrorCode::InvalidArgument, "more than memory", [&] { (void)Tensor(DType::F32, {kMost}); });
  expect_error(ErrorCode::InvalidArgument, "more than memory",
               [&] { (void)Tensor::view(DType::String, {kMost / 8}, &byte); });
  EXPECT_EQ(error_of([] { (void)Tensor(DType::String, {std::int64_t{1} << 58}); }).code(),
            ErrorCode::OutOfMemory);
  const auto unknown = static_cast<DType>(200);
  expect_error(ErrorCode::InvalidArgument, "200 is no number of a dtype",
               [&] { (void)Tensor(unknown, {1}); });
  expect_error(ErrorCode::InvalidArgument, "200", [&] { (void)Tensor::view(unknown, {1}, &byte); });
  expect_error(ErrorCode::ShapeMismatch, "cannot copy", [] { ones({2}).copy_from(ones({3})); });
  expect_error(ErrorCode::ShapeMismatch, "cannot view", [] { (void)ones({2}).reshaped({3}); });
}

TEST(Tensors, GiveNumbersOfEveryDType) {
  const auto first = [](DType dtype, std::uint64_t bits) {
    return Tensor::view(dtype, {1}, &bits).number(0);
  };
  EXPECT_EQ(first(DType::I1, 1), 1);
  EXPECT_EQ(first(DType::I8, 0xff), -1);
  EXPECT_EQ(first(DType::U8, 0xff), 255);
  EXPECT_EQ(first(DType::I16, 0x8000), -32768);
  EXPECT_EQ(first(DType::U16, 0x8000), 32768);
  EXPECT_EQ(first(DType::I32, 0xffffffff), -1);
  EXPECT_EQ(first(DType::U32, 0xffffffff), 4294967295.0);
  EXPECT_EQ(first(DType::I64, ~std::uint64_t{0}), -1);
  EXPECT_EQ(first(DType::U64, std::uint64_t{1} << 63), 9223372036854775808.0);
  EXPECT_EQ(first(DType::F16, 0xc000), -2);
  EXPECT_EQ(first(DType::BF16, 0xbf80), -1);
  EXPECT_EQ(first(DType::F32, 0x3fc00000), 1.5);
  EXPECT_EQ(first(DType::F64, 0x3ff8000000000000), 1.5);
  EXPECT_EQ(first(DType::F8E4M3FN, 0x38), 1);
  EXPECT_EQ(first(DType::F8E5M2, 0xbc), -1);
  EXPECT_EQ(first(DType::F8E8M0, 128), 2);
  EXPECT_EQ(first(DType::F4E2M1, 0x7), 6);
  std::byte packed{0xe4};  // 0, 1, 2, 3 of two bits; 4, 14 of four
  const Tensor pairs = Tensor::view(DType::I2, {4}, &packed), halves = Tensor::view(DType::U4, {2}, &packed);
  EXPECT_THAT((std::vector{pairs.number(0), pairs.number(1), pairs.number(2), pairs.number(3)}),
              ElementsAre(0, 1, -2, -1));
  EXPECT_THAT((std::vector{halves.number(0), halves.number(1)}), ElementsAre(4, 14));
  EXPECT_EQ(Tensor::view(DType::I4, {2}, &packed).number(1), -2);
  expect_error(ErrorCode::TypeMismatch, "string", [] { (void)Tensor(DType::String, {1}).number(0); });
  expect_error(ErrorCode::TypeMismatch, "c64", [] { (void)Tensor(DType::C64, {1}).number(0); });
  expect_error(ErrorCode::IndexOutOfRange, "element 1", [] { (void)ones({1}).number(1); });
  expect_error(ErrorCode::IndexOutOfRange, "element -1", [] { (void)ones({1}).number(-1); });
}

TEST(Runs, RefuseInputsThatDoNotFit) {
  for (const KernelChoice kernels : kKernels) {
    const Session session = load(doubling(), kernels);
    expect_error(ErrorCode::InvalidArgument, "input x has no elements",
                 [&] { session.run({{"x", Tensor()}}); });
    expect_error(ErrorCode::InvalidArgument, "input x is not given", [&] { session.run({}); });
    expect_error(ErrorCode::InvalidArgument, "input x is given twice",
                 [&] { session.run({{"x", ones({2, 3})}, {"x", ones({2, 3})}}); });
    expect_error(ErrorCode::InvalidArgument, "no input z", [&] { session.run({{"z", ones({2, 3})}}); });
    expect_error(ErrorCode::TypeMismatch, "input x has dtype f64, expected f32",
                 [&] { session.run({{"x", Tensor(DType::F64, {2, 3})}}); });
    const std::vector<NamedDatum> nothing = {{"x", Datum()}}, sequence = {{"x", Sequence{}}};
    expect_error(ErrorCode::TypeMismatch, "input x is nothing", [&] { session.run(nothing); });
    expect_error(ErrorCode::TypeMismatch, "input x is sequence of 0 f32", [&] { session.run(sequence); });
    std::vector<Tensor> none, one = {ones({2, 3})};
    expect_error(ErrorCode::InvalidArgument, "got 0 inputs, expected 1", [&] { session.run(none, one); });
    expect_error(ErrorCode::InvalidArgument, "got 0 outputs, expected 1", [&] { session.run(one, none); });
  }
}

TEST(Runs, RefuseOutputsThatDoNotFit) {
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(doubling(), kernels);
    std::vector<Tensor> inputs = {ones({2, 3})};
    for (const auto& [output, text] : std::vector<std::pair<Tensor, std::string>>{
             {ones({3, 2}), "output y is given as f32 3x2, expected f32 2x3"},
             {Tensor(DType::F64, {2, 3}), "output y is given as f64 2x3, expected f32 2x3"},
             {Tensor(), "output y is given as f32 scalar without elements"}}) {
      std::vector<Tensor> outputs = {output};
      expect_error(ErrorCode::ShapeMismatch, text, [&] { session.run(inputs, outputs); });
    }
    std::vector<Tensor> outputs = {Tensor(DType::F32, {2, 3})};
    session.run(inputs, outputs);
    EXPECT_EQ(outputs[0].as<float>()[5], 2);
  }
}

// Items and maps come from the program, with whatever dtypes and lengths it likes.
TEST(Runs, LookIntoSequences) {
  ModelBuilder model(18);
  auto& info = *model.model.mutable_graph()->add_input();
  info.set_name("items");
  info.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(
      kFloat);
  set(model.node("ConcatFromSequence", {"items"}, {"y"}), "axis", std::int64_t{0});
  model.output("y");
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(model, kernels);
    const auto run = [&](std::vector<Datum> items) {
      return session.run(std::vector<NamedDatum>{{"items", Sequence{DType::F32, std::move(items)}}});
    };
    EXPECT_EQ(run({ones({2}), ones({1})})[0].tensor().extents(), (Extents{3}));
    expect_error(ErrorCode::TypeMismatch, "item 1 of input items has dtype f64, expected f32",
                 [&] { run({ones({2}), Tensor(DType::F64, {2})}); });
    expect_error(ErrorCode::InvalidArgument, "item 0 of input items has no elements",
                 [&] { run({Tensor()}); });
    expect_error(ErrorCode::TypeMismatch, "item 0 of input items is nothing, expected a tensor of f32",
                 [&] { run({Datum()}); });
    expect_error(ErrorCode::TypeMismatch, "item 0 of input items is sequence", [&] { run({Sequence{}}); });
    expect_error(ErrorCode::TypeMismatch, "input items is f32 1, expected a sequence of f32",
                 [&] { session.run({{"items", ones({1})}}); });
  }
}

TEST(Runs, LookIntoMaps) {
  ModelBuilder model(18, "ai.onnx.ml", 3);
  auto& info = *model.model.mutable_graph()->add_input();
  info.set_name("counts");
  auto& map = *info.mutable_type()->mutable_map_type();
  map.set_key_type(kInt64);
  map.mutable_value_type()->mutable_tensor_type()->set_elem_type(kFloat);
  auto& node = model.node("CastMap", {"counts"}, {"y"}, "ai.onnx.ml");
  frontend::testing::set_text(node, "cast_to", "TO_FLOAT");
  model.output("y");
  const auto keys = [](std::vector<std::int64_t> values) { return Tensor::from_integers(values); };
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(model, kernels);
    const auto run = [&](Map given) {
      return session.run(std::vector<NamedDatum>{{"counts", std::move(given)}});
    };
    EXPECT_EQ(run({keys({1, 5}), ones({2})})[0].tensor().elements(), 2);
    expect_error(ErrorCode::ShapeMismatch, "as many values", [&] { run({keys({1, 5}), ones({3})}); });
    expect_error(ErrorCode::ShapeMismatch, "of rank 1", [&] { run({ones({2}), ones({2})}); });
    expect_error(ErrorCode::InvalidArgument, "keys do not ascend", [&] { run({keys({5, 1}), ones({2})}); });
    expect_error(ErrorCode::InvalidArgument, "has no elements", [&] { run({Tensor(), Tensor()}); });
    expect_error(ErrorCode::TypeMismatch, "expected a map of f32",
                 [&] { run({keys({1}), Tensor(DType::F64, {1})}); });
  }
}

// Strings and what passes through the model untouched reach the caller's memory too.
TEST(Runs, FillTheCallersMemoryWhateverTheOutput) {
  ModelBuilder model(18);
  model.input("x", {"n"}).input("words", {"n"}, kString).output("x").output("words");
  model.node("Identity", {"x"}, {"copy"});
  model.node("Identity", {"words"}, {"same"});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Add", {"x", "x"}, {"twice"});
  model.output("copy").output("same").output("shape").output("twice").output("twice");
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(model, kernels);
    std::vector<std::string> words = {"a word", std::string(100, 'w')};
    std::vector<Tensor> inputs = {ones({2}), Tensor::view(DType::String, {2}, words.data())};
    std::vector<Tensor> outputs = {Tensor(DType::F32, {2}), Tensor(DType::String, {2}),
                                   Tensor(DType::F32, {2}), Tensor(DType::String, {2}),
                                   Tensor(DType::I64, {1}), Tensor(DType::F32, {2}),
                                   Tensor(DType::F32, {2})};
    const std::vector<Tensor> same = outputs;
    session.run(inputs, outputs);
    EXPECT_EQ(same[0], inputs[0]);
    EXPECT_EQ(same[1], inputs[1]);
    EXPECT_EQ(same[2], inputs[0]);
    EXPECT_EQ(same[3], inputs[1]);
    EXPECT_EQ(same[4].as<std::int64_t>()[0], 2);
    EXPECT_EQ(same[5].as<float>()[1], 2);
    EXPECT_EQ(same[6].as<float>()[1], 2);
  }
}

TEST(Runs, NameTheNodeWhereExtentsDoNotBroadcast) {
  ModelBuilder model(18);
  model.input("a", {"n"}).input("b", {"m"});
  auto& node = model.node("Add", {"a", "b"}, {"y"});
  node.set_name("meeting");
  model.output("y");
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(model, kernels);
    EXPECT_EQ(session.run({{"a", ones({1})}, {"b", ones({3})}})[0].extents(), (Extents{3}));
    expect_error(ErrorCode::ShapeMismatch, "meeting",
                 [&] { session.run({{"a", ones({2})}, {"b", ones({3})}}); });
    const std::vector<Extents> extents = {{2}, {3}};
    expect_error(ErrorCode::ShapeMismatch, "meeting", [&] { (void)session.output_extents(extents); });
  }
}

// The size of the result is negative: its node is named, for a Value may have no name.
TEST(Runs, NameTheNodeOfAnImpossibleExtent) {
  ModelBuilder model(18);
  model.input("x", {1, 1, "n"});
  model.floats("w", {1, 1, 3}, {1, 1, 1});
  auto& node = model.node("Conv", {"x", "w"}, {"y"});
  node.set_name("narrow");
  model.output("y");
  const Session session = load(model);
  expect_error(ErrorCode::ShapeMismatch, "narrow", [&] { session.run({{"x", ones({1, 1, 0})}}); });
}

TEST(ExtentsOfInputs, AreAskedForByName) {
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    const Session session = load(doubling(), kernels);
    const std::vector<Extents> good = {{2, 3}}, many = {{2, 3}, {2, 3}}, negative = {{-2, 3}};
    EXPECT_EQ(session.output_extents(good)[0], (Extents{2, 3}));
    expect_error(ErrorCode::InvalidArgument, "x ([batch, 3])", [&] { (void)session.output_extents({}); });
    expect_error(ErrorCode::InvalidArgument, "2 inputs, expected those of 1",
                 [&] { (void)session.output_extents(many); });
    expect_error(ErrorCode::ShapeMismatch, "-2x3", [&] { (void)session.output_extents(negative); });
  }
  const Session session = load(doubling());
  expect_error(ErrorCode::InvalidArgument, "x ([batch, 3])", [&] { (void)session.explain("plan", "", {}); });
  ModelBuilder fixed(18);
  fixed.input("x", {2, 3});
  fixed.node("Neg", {"x"}, {"y"});
  fixed.output("y");
  EXPECT_EQ(load(fixed).output_extents({})[0], (Extents{2, 3}));
  EXPECT_THAT(load(fixed).explain("plan", "", {}), HasSubstr("launch Neg"));
}

TEST(LoadOptions, AreChecked) {
  const auto expect_refusal = [](const std::string& text, const std::function<void(Options&)>& change) {
    for (const KernelChoice kernels : kKernels) {
      Options options;
      options.kernels = kernels;
      change(options);
      expect_error(ErrorCode::InvalidArgument, text, [&] { load(doubling(), options); });
    }
  };
  expect_refusal("-1 threads", [](Options& options) { options.threads = -1; });
  expect_refusal("1000000000 threads", [](Options& options) { options.threads = 1'000'000'000; });
  expect_refusal("memory limit is -5", [](Options& options) { options.memory_limit = -5; });
  expect_refusal("unknown target z80", [](Options& options) { options.target = "z80"; });
  expect_refusal("99 is no choice of kernels",
                 [](Options& options) { options.kernels = static_cast<KernelChoice>(99); });
  expect_refusal("constant input x has no elements",
                 [](Options& options) { options.constant_inputs = {{"x", Tensor()}}; });
  expect_refusal("constant input x is given twice", [](Options& options) {
    options.constant_inputs = {{"x", ones({2, 3})}, {"x", ones({2, 3})}};
  });
  expect_refusal("no input 'z'", [](Options& options) { options.constant_inputs = {{"z", ones({})}}; });
  Options options;
  options.constant_inputs = {{"x", ones({2, 4})}};
  expect_error(ErrorCode::ShapeMismatch, "input 'x' is declared as [batch, 3], got a constant of shape 2x4",
               [&] { load(doubling(), options); });
  EXPECT_THROW(Session::load_bytes({}, ""), Error);
  EXPECT_THAT(error_of([] { Session::load_bytes({}, ""); }).what(), HasSubstr("the model is empty"));
}

TEST(Explain, RefusesUnknownStages) {
  for (const KernelChoice kernels : kKernels) {
    const Session session = load(doubling(), kernels);
    EXPECT_EQ(error_of([&] { (void)session.explain("magic", "", {}); }).code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(error_of([&] { (void)session.explain("", "", {}); }).code(), ErrorCode::InvalidArgument);
  }
}

TEST(Explain, ShowsGraphsInNodes) {
  ModelBuilder model(18);
  model.input("x", {"n"}).input("condition", {}, onnx::TensorProto::BOOL);
  auto& node = model.node("If", {"condition"}, {"y"});
  node.set_name("choice");
  for (const auto& [branch, op] : {std::pair{"then_branch", "Neg"}, {"else_branch", "Exp"}}) {
    auto& body = frontend::testing::graph_attribute(node, branch);
    ModelBuilder::add_node(*body.mutable_node(), op, {"x"}, {branch});
    body.add_output()->set_name(branch);
  }
  model.output("y");
  const Session session = load(model);
  EXPECT_THAT(session.explain("regions", "", {}),
              AllOf(HasSubstr("If choice runs the graphs in it"), HasSubstr("region of Neg"),
                    HasSubstr("region of Exp")));
  EXPECT_THAT(session.explain("tile", "", {}),
              AllOf(HasSubstr("// If choice: runs the graphs in it"), HasSubstr("kernel @"),
                    Not(HasSubstr("reference kernels: \n"))));
}

TEST(DeclaredOutputs, ThatContradictTheNodesAreWarnedOf) {
  ModelBuilder model(18);
  model.input("x", {"n", 3});
  model.node("Neg", {"x"}, {"a"});
  model.node("Abs", {"x"}, {"b"});
  model.node("Exp", {"x"}, {"c"});
  model.node("Sin", {"x"}, {"d"});
  auto& graph = *model.model.mutable_graph();
  ModelBuilder::set_type(*graph.add_output(), "a", {"n", 4}, kFloat);
  ModelBuilder::set_type(*graph.add_output(), "b", {"n", 3}, kInt64);
  ModelBuilder::set_type(*graph.add_output(), "c", {3}, kFloat);
  ModelBuilder::set_type(*graph.add_output(), "d", {7, 3}, kFloat);  // n may be 7
  std::vector<std::string> warnings;
  Options options;
  options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  const Session session = load(model, options);
  EXPECT_THAT(warnings, ElementsAre("output a is declared as f32[n, 4], but the nodes make it f32[n, 3]",
                                    "output b is declared as i64[n, 3], but the nodes make it f32[n, 3]",
                                    "output c is declared as f32[3], but the nodes make it f32[n, 3]"));
  const auto outputs = session.run({{"x", ones({2, 3})}});
  EXPECT_EQ(outputs[0].extents(), (Extents{2, 3}));
  EXPECT_EQ(outputs[1].dtype(), DType::F32);
  EXPECT_EQ(warnings.size(), 3U);
}

TEST(Warnings, TellOfACacheThatCannotBeUsed) {
  std::vector<std::string> warnings;
  Options options;
  options.cache = "/proc/self/no/such/folder/kernels.sqlite";
  options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  const Session session = load(doubling(), options);
  session.run({{"x", ones({2, 3})}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("kernel cache: "), HasSubstr("it is not used")));
}

TEST(Callbacks, MayThrow) {
  Options options;
  options.cache = "/proc/self/no/such/folder/kernels.sqlite";
  int calls = 0;
  options.warn = options.log = [&](std::string_view) {
    ++calls;
    throw std::runtime_error("a callback's own");
  };
  const Session session = load(doubling(), options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(session.run({{"x", ones({2, 3})}})[0].as<float>()[0], 2);
  EXPECT_GE(calls, 2);
}

TEST(Files, AreNotMadeOfNothing) {
  const std::string file = ::testing::TempDir() + "nothing.npy";
  expect_error(ErrorCode::InvalidArgument, "has no elements", [&] { write_tensor(file, Tensor()); });
  expect_error(ErrorCode::InvalidArgument, "neither .npy nor .pb", [] { write_tensor("x.txt", ones({1})); });
  EXPECT_EQ(error_of([] { write_tensor("/no/such/folder/x.npy", ones({1})); }).code(), ErrorCode::Io);
  EXPECT_EQ(error_of([] { (void)read_tensor("/no/such/folder/x.npy"); }).code(), ErrorCode::NotFound);
  expect_error(ErrorCode::InvalidArgument, "neither .npy nor .pb", [] { (void)read_tensor(""); });
}

TEST(Kernels, RefuseArgumentsThatDoNotFit) {
  constexpr std::string_view kSource =
      "kernel @twice(%x: view<?xf32>, %s: f32, %y: out view<?xf32>) grid [ceildiv(dim(%x, 0), 4)]\n"
      "{\n  %i = program_id 0 * 4\n  %v = load %x[%i] : tile<4xf32>\n  store %y[%i], %v * %s\n}\n";
  for (const KernelEngine engine : {KernelEngine::Generated, KernelEngine::Interpreter}) {
    const auto run = [&](const std::vector<Tensor>& arguments) {
      run_kernel(kSource, "text", "twice", {}, arguments, engine);
    };
    Tensor two(DType::F32, {});
    two.as_mutable<float>()[0] = 2;
    const Tensor y(DType::F32, {5});
    run({ones({5}), two, y});
    EXPECT_EQ(y.as<float>()[4], 2);
    expect_error(ErrorCode::InvalidArgument, "takes 3 arguments, got 2", [&] { run({ones({5}), two}); });
    expect_error(ErrorCode::InvalidArgument, "argument 0 of kernel twice has no elements",
                 [&] { run({Tensor(), two, y}); });
    expect_error(ErrorCode::TypeMismatch, "argument 1", [&] { run({ones({5}), Tensor(), y}); });
    expect_error(ErrorCode::TypeMismatch, "argument 1", [&] { run({ones({5}), ones({2}), y}); });
    expect_error(ErrorCode::ShapeMismatch, "argument 2", [&] { run({ones({5}), two, ones({5, 1})}); });
    expect_error(ErrorCode::TypeMismatch, "argument 2",
                 [&] { run({ones({5}), two, Tensor(DType::F64, {5})}); });
  }
  constexpr std::string_view kEqual =
      "kernel @equal(%x: view<?xf32>, %y: out view<?xf32>) assume %x[0] = %y[0] grid [1] { }";
  for (const KernelEngine engine : {KernelEngine::Generated, KernelEngine::Interpreter}) {
    expect_error(ErrorCode::ShapeMismatch, "argument y has extent 6 along axis 0, expected 5",
                 [&] { run_kernel(kEqual, "text", "equal", {}, {ones({5}), ones({6})}, engine); });
  }
  EXPECT_EQ(error_of([&] { run_kernel(kSource, "text", "thrice", {}, {}, KernelEngine::Generated); }).code(),
            ErrorCode::NotFound);
  EXPECT_EQ(error_of([&] { (void)kernel_listing(kSource, "text", "twice", {}, "wasm"); }).code(),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of([&] {
              run_kernel(kSource, "text", "twice", {}, {ones({5}), ones({}), ones({5})},
                         KernelEngine::Generated, "z80");
            }).code(),
            ErrorCode::InvalidArgument);
}

TEST(Caches, ThatAreNotThereOrMakeNoSense) {
  expect_error(ErrorCode::InvalidArgument, "-1 bytes", [] { collect_cache("/tmp", -1); });
  for (const char* path : {"/no/such/folder/kernels.sqlite", "/proc/self/mem/x"}) {
    EXPECT_EQ(error_of([&] { (void)cache_stats(path); }).kind(), ErrorKind::Environment);
    EXPECT_EQ(error_of([&] { (void)cache_entries(path); }).kind(), ErrorKind::Environment);
    EXPECT_EQ(error_of([&] { (void)verify_cache(path); }).kind(), ErrorKind::Environment);
  }
}

TEST(Messages, EscapeWhatATerminalWouldObey) {
  EXPECT_EQ(printable("plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\xa5"),
            "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\xa5");
  EXPECT_EQ(printable(std::string_view("\x1b[2J\n\t\x7f\0", 8)), "\\x1b[2J\\x0a\\x09\\x7f\\x00");
  EXPECT_EQ(printable("\xc2\x9b 1"), "\\xc2\\x9b 1");
  // Cut off, overlong, a surrogate, beyond Unicode, and a byte that begins nothing.
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xff"), "\\xff");

  const std::string name = "evil\x1b[31m\nname";
  ModelBuilder model(18);
  model.input(name, {name.c_str()});
  model.node("Neg", {name}, {"y"}).set_name(name);
  model.output("y");
  const Session session = load(model);
  EXPECT_EQ(session.inputs()[0].name, name);
  const std::vector<Extents> extents = {{2}};
  for (const std::string& text : {std::string(error_of([&] { session.run({}); }).what()),
                                  error_of([&] { session.run({{name, Tensor(DType::F64, {1})}}); }).message(),
                                  session.explain("graph", "", {}), session.explain("regions", "", {}),
                                  session.explain("plan", "", extents), session.explain("tile", "", {})}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr("evil\\x1b[31m\\x0aname"));
  }
}

}  // namespace
}  // namespace kiln
