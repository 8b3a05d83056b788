// Strings through a Session: views, movement and outputs that share elements with inputs.
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/frontend/single_node.h"

namespace kiln::frontend {
namespace {

using testing::ModelBuilder;
using testing::set;
using testing::set_integers;
using testing::set_text;
using testing::set_texts;
using testing::SingleNode;
using Strings = std::vector<std::string>;

Strings words(const Tensor& tensor) {
  const auto items = tensor.as<std::string>();
  return {items.begin(), items.end()};
}

// Long enough that none lies inside its object.
std::string word(int i) { return "a string of some length, number " + std::to_string(i); }

TEST(Strings, MoveAsObjects) {
  ModelBuilder builder(17);
  builder.input("x", {"rows", 3}, onnx::TensorProto::STRING);
  set_integers(builder.node("Transpose", {"x"}, {"t"}), "perm", {1, 0});
  builder.integers("start", {1}, {1})
      .integers("end", {1}, {3})
      .integers("wide", {3}, {2, 1, 1})
      .integers("flat", {1}, {-1});
  builder.node("Slice", {"t", "start", "end"}, {"part"});
  set(builder.node("Concat", {"part", "t"}, {"joined"}), "axis", 0);
  builder.node("Expand", {"part", "wide"}, {"repeated"});
  builder.node("Reshape", {"t", "flat"}, {"row"});
  builder.node("Identity", {"x"}, {"same"});
  for (const char* name : {"joined", "repeated", "row", "same", "part"}) builder.output(name);
  const std::string bytes = builder.bytes();
  const Session session = Session::load_bytes(std::as_bytes(std::span(bytes)), ".");

  for (const std::int64_t rows : {2, 1, 5, 0}) {
    Strings x;
    for (int i = 0; i < rows * 3; ++i) x.push_back(word(i));
    const Tensor given = Tensor::from(DType::String, {rows, 3}, std::span<const std::string>(x));
    const auto results = session.run({{"x", given}});
    Strings transposed, part;
    for (int column = 0; column < 3; ++column) {
      for (int row = 0; row < rows; ++row) transposed.push_back(word(row * 3 + column));
    }
    part.assign(transposed.begin() + rows, transposed.end());
    Strings joined = part, repeated = part;
    joined.insert(joined.end(), transposed.begin(), transposed.end());
    repeated.insert(repeated.end(), part.begin(), part.end());
    EXPECT_EQ(words(results[0]), joined);
    EXPECT_EQ(results[1].extents(), (Extents{2, 2, rows}));
    EXPECT_EQ(words(results[1]), repeated);
    EXPECT_EQ(words(results[2]), transposed);
    EXPECT_EQ(words(results[3]), x);
    EXPECT_EQ(words(results[4]), part);
  }
}

// At load, not at the first run.
TEST(Patterns, WrongOnesAreRefused) {
  const auto error_of = [](const std::string& op, const std::string& domain, const auto& set_attributes) {
    SingleNode model(20, op, domain);
    model.strings({1}, {"a"});
    set_attributes(model.node());
    return model.load_error();
  };
  for (const auto& [pattern, error] :
       {std::pair<std::string, std::optional<ErrorCode>>{"(a|b)+", std::nullopt},
        {"(", ErrorCode::InvalidModel},
        {"(a)\\1", ErrorCode::InvalidModel}}) {
    const auto with = [&](const char* name) {
      return [name, pattern = pattern](onnx::NodeProto& node) {
        set_text(node, name, pattern);
        if (node.op_type() != "Tokenizer") return;
        set(node, "mark", 0);
        set(node, "mincharnum", 1);
        set_text(node, "pad_value", "");
      };
    };
    EXPECT_EQ(error_of("RegexFullMatch", "", with("pattern")), error) << pattern;
    EXPECT_EQ(error_of("Tokenizer", "com.microsoft", with("tokenexp")), error) << pattern;
    EXPECT_EQ(error_of("Tokenizer", "com.microsoft",
                       [&](onnx::NodeProto& node) {
                         with("pad_value")(node);
                         node.mutable_attribute()->RemoveLast();
                         set_texts(node, "separators", {" ", pattern});
                       }),
              error)
        << pattern;
  }
  EXPECT_EQ(error_of("RegexFullMatch", "", [](onnx::NodeProto&) {}), ErrorCode::InvalidModel);
}

}  // namespace
}  // namespace kiln::frontend
