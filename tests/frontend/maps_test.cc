// Maps as inputs and outputs of models, run by a Session.
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

using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;
using Floats = std::vector<float>;

Tensor integers(const Integers& values) { return Tensor::from_integers(values); }
Tensor strings(const Strings& values) {
  return Tensor::from(DType::String, {static_cast<std::int64_t>(values.size())},
                      std::span<const std::string>(values));
}
Tensor floats(const Extents& extents, const Floats& values) {
  return Tensor::from(DType::F32, extents, std::span<const float>(values));
}

void set_map(onnx::TypeProto& type, int keys, int values) {
  type.mutable_map_type()->set_key_type(keys);
  type.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(values);
}

// One node from a map to y.
class MapModel {
 public:
  MapModel(const std::string& op, int keys, int values)
      : builder_(17, "ai.onnx.ml", 1), node_(&builder_.node(op, {"x"}, {"y"}, "ai.onnx.ml")) {
    auto& input = *builder_.model.mutable_graph()->add_input();
    input.set_name("x");
    set_map(*input.mutable_type(), keys, values);
    builder_.output("y");
  }
  onnx::NodeProto& node() { return *node_; }
  Tensor run(const Map& map) const {
    const std::string bytes = builder_.bytes();
    const Session session = Session::load_bytes(std::as_bytes(std::span(bytes)), ".");
    const NamedDatum input{"x", map};
    return session.run(std::span(&input, 1)).at(0).tensor();
  }

 private:
  ModelBuilder builder_;
  onnx::NodeProto* node_;
};

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt = onnx::TensorProto::INT64,
              kText = onnx::TensorProto::STRING;

TEST(Maps, DictVectorizerFollowsItsVocabulary) {
  MapModel words("DictVectorizer", kText, kInt);
  set_texts(words.node(), "string_vocabulary", {"a", "b", "c"});
  const Tensor y = words.run({strings({"b", "c", "z"}), integers({5, 6, 7})});
  EXPECT_EQ(y.extents(), (Extents{1, 3}));
  EXPECT_EQ(y.to_integers(), (Integers{0, 5, 6}));

  MapModel numbers("DictVectorizer", kInt, kText);
  set_integers(numbers.node(), "int64_vocabulary", {9, -1});
  EXPECT_EQ(numbers.run({integers({-1, 4}), strings({"m", "n"})}), strings({"", "m"}).reshaped({1, 2}));
  EXPECT_EQ(numbers.run({integers({}), strings({})}), strings({"", ""}).reshaped({1, 2}));
}

TEST(Maps, CastMapPacksOrPlacesValues) {
  MapModel dense("CastMap", kInt, kText);
  EXPECT_EQ(dense.run({integers({2, 7}), strings({"1.5", "-2"})}), floats({1, 2}, {1.5F, -2}));
  MapModel sparse("CastMap", kInt, kFloat);
  set_text(sparse.node(), "map_form", "SPARSE");
  set_text(sparse.node(), "cast_to", "TO_INT64");
  set(sparse.node(), "max_map", 4);
  EXPECT_EQ(sparse.run({integers({1, 3}), floats({2}, {2.75F, -4})}),
            integers({0, 2, 0, -4}).reshaped({1, 4}));
  EXPECT_THROW(sparse.run({integers({4}), floats({1}, {1})}), Error);
}

TEST(Maps, KeysOfAnotherTypeAreRefused) {
  MapModel words("DictVectorizer", kText, kInt);
  set_texts(words.node(), "string_vocabulary", {"a"});
  EXPECT_THROW(words.run({integers({1}), integers({1})}), Error);
}

TEST(Maps, ZipMapMakesOneForEachRow) {
  ModelBuilder builder(17, "ai.onnx.ml", 1);
  builder.input("x", {"rows", 3}).output("y");
  set_texts(builder.node("ZipMap", {"x"}, {"y"}, "ai.onnx.ml"), "classlabels_strings", {"b", "c", "a"});
  const std::string bytes = builder.bytes();
  const Session session = Session::load_bytes(std::as_bytes(std::span(bytes)), ".");
  const NamedDatum input{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  const std::vector<Datum> outputs = session.run(std::span(&input, 1));
  const Sequence& maps = outputs.at(0).sequence();
  ASSERT_EQ(maps.items.size(), 2U);
  EXPECT_EQ(maps.items[1].map().keys, strings({"a", "b", "c"}));
  EXPECT_EQ(maps.items[0].map().values, floats({3}, {3, 1, 2}));
  EXPECT_EQ(maps.items[1].map().values, floats({3}, {6, 4, 5}));
}

TEST(Maps, ZipMapRefusesLabelsThatDoNotFit) {
  testing::SingleNode twice(17, "ZipMap", "ai.onnx.ml");
  set_integers(twice.node(), "classlabels_int64s", {1, 2});
  EXPECT_EQ(twice.floats({1, 3}, {1, 2, 3}).load_error(), ErrorCode::ShapeMismatch);
  testing::SingleNode none(17, "ZipMap", "ai.onnx.ml");
  EXPECT_EQ(none.floats({1, 3}, {1, 2, 3}).load_error(), ErrorCode::InvalidModel);
}

}  // namespace
}  // namespace kiln::frontend
