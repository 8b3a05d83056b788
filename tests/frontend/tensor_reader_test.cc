#include "frontend/onnx/tensor_reader.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <sys/stat.h>

#include "frontend/onnx/tensor_file.h"
#include "frontend/onnx/wire.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

onnx::TensorProto proto_of(int data_type, const std::vector<std::int64_t>& dims) {
  onnx::TensorProto proto;
  proto.set_name("t");
  proto.set_data_type(data_type);
  for (const std::int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

template <typename Proto>
Tensor read(const Proto& proto) {
  TensorReader reader{TensorStorage{}};
  return reader.read(proto);
}

template <typename Proto>
std::string failure(const Proto& proto) {
  try {
    read(proto);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller);
    return error.what();
  }
  return "read";
}

template <typename T>
std::vector<T> elements(const Tensor& tensor) {
  const auto values = tensor.as<T>();
  return {values.begin(), values.end()};
}

// A folder that is removed at the end of the test.
class TensorFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-frontend-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  static std::string floats(int count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0.0F);
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  static onnx::TensorProto external(const std::vector<std::int64_t>& dims,
                                    const std::vector<std::pair<std::string, std::string>>& entries) {
    onnx::TensorProto proto = proto_of(onnx::TensorProto::FLOAT, dims);
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = proto.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return proto;
  }
  Tensor read_external(const onnx::TensorProto& proto) const {
    TensorStorage storage;
    storage.folder = folder.string();
    TensorReader reader(std::move(storage));
    return reader.read(proto);
  }
  std::string external_failure(const onnx::TensorProto& proto) const {
    try {
      read_external(proto);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller);
      return error.what();
    }
    return "read";
  }

  std::filesystem::path folder;
};

TEST(TensorReader, ReadsTypedFields) {
  auto f32 = proto_of(1, {2});
  f32.add_float_data(1.5F);
  f32.add_float_data(-2);
  EXPECT_THAT(elements<float>(read(f32)), ElementsAre(1.5F, -2));

  auto f64 = proto_of(11, {1});
  f64.add_double_data(0.1);
  EXPECT_THAT(elements<double>(read(f64)), ElementsAre(0.1));

  auto i64 = proto_of(7, {});
  i64.add_int64_data(INT64_MIN);
  EXPECT_THAT(elements<std::int64_t>(read(i64)), ElementsAre(INT64_MIN));
  EXPECT_EQ(read(i64).rank(), 0);

  auto u64 = proto_of(13, {1});
  u64.add_uint64_data(UINT64_MAX);
  EXPECT_THAT(elements<std::uint64_t>(read(u64)), ElementsAre(UINT64_MAX));

  auto u32 = proto_of(12, {1});
  u32.add_uint64_data(UINT32_MAX);
  EXPECT_THAT(elements<std::uint32_t>(read(u32)), ElementsAre(UINT32_MAX));

  struct Case {
    int data_type;
    DType dtype;
    std::vector<std::int32_t> values;
    std::vector<unsigned> bytes;
  };
  const std::vector<Case> cases = {
      {6, DType::I32, {-2}, {0xfe, 0xff, 0xff, 0xff}},
      {5, DType::I16, {-2}, {0xfe, 0xff}},
      {4, DType::U16, {65535}, {0xff, 0xff}},
      {3, DType::I8, {-128}, {0x80}},
      {2, DType::U8, {255}, {0xff}},
      {9, DType::I1, {1}, {1}},
      {10, DType::F16, {0x3c00}, {0x00, 0x3c}},
      {16, DType::BF16, {0x3f80}, {0x80, 0x3f}},
      {17, DType::F8E4M3FN, {0x38}, {0x38}},
      {18, DType::F8E4M3FNUZ, {0x40}, {0x40}},
      {19, DType::F8E5M2, {0x3c}, {0x3c}},
      {20, DType::F8E5M2FNUZ, {0x40}, {0x40}},
      {24, DType::F8E8M0, {0x7f}, {0x7f}},
  };
  for (const Case& one : cases) {
    auto proto = proto_of(one.data_type, {1});
    for (const std::int32_t value : one.values) proto.add_int32_data(value);
    const Tensor tensor = read(proto);
    EXPECT_EQ(tensor.dtype(), one.dtype);
    std::vector<unsigned> bytes;
    for (std::int64_t i = 0; i < tensor.byte_size(); ++i)
      bytes.push_back(std::to_integer<unsigned>(tensor.data()[i]));
    EXPECT_EQ(bytes, one.bytes) << name(one.dtype);
  }
}

TEST(TensorReader, ReadsPackedTypes) {
  const std::pair<int, DType> four_bits[] = {{21, DType::U4}, {22, DType::I4}, {23, DType::F4E2M1}};
  for (const auto& [data_type, dtype] : four_bits) {
    auto proto = proto_of(data_type, {3});
    proto.add_int32_data(0x21);
    proto.add_int32_data(0x03);
    const Tensor tensor = read(proto);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.byte_size(), 2);
    EXPECT_EQ(std::to_integer<int>(tensor.data()[0]), 0x21);
    EXPECT_EQ(std::to_integer<int>(tensor.data()[1]), 0x03);
    proto.add_int32_data(0);
    EXPECT_THAT(failure(proto), AllOf(HasSubstr("3 values"), HasSubstr("expected 2")));
  }
  const std::pair<int, DType> two_bits[] = {{25, DType::U2}, {26, DType::I2}};
  for (const auto& [data_type, dtype] : two_bits) {
    auto proto = proto_of(data_type, {5});
    proto.set_raw_data(std::string("\xe4\x01", 2));
    const Tensor tensor = read(proto);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.byte_size(), 2);
    EXPECT_EQ(std::to_integer<int>(tensor.data()[0]), 0xe4);
  }
}

TEST(TensorReader, ReadsComplexNumbersAndStrings) {
  auto c64 = proto_of(14, {1});
  c64.add_float_data(1);
  c64.add_float_data(2);
  EXPECT_EQ(read(c64).dtype(), DType::C64);
  EXPECT_EQ(reinterpret_cast<const float*>(read(c64).data())[1], 2);
  auto c128 = proto_of(15, {1});
  c128.add_double_data(1);
  EXPECT_THAT(failure(c128), HasSubstr("expected 2"));
  auto strings = proto_of(8, {2});
  strings.add_string_data("a");
  strings.add_string_data(std::string("b\0c", 3));
  EXPECT_THAT(elements<std::string>(read(strings)), ElementsAre("a", std::string("b\0c", 3)));
  strings.add_string_data("extra");
  EXPECT_THAT(failure(strings), HasSubstr("3 strings, expected 2"));
}

TEST(TensorReader, ReadsRawData) {
  auto i16 = proto_of(5, {2});
  i16.set_raw_data(std::string("\x01\x00\xff\xff", 4));
  EXPECT_THAT(elements<std::int16_t>(read(i16)), ElementsAre(1, -1));
  auto booleans = proto_of(9, {3});
  booleans.set_raw_data(std::string("\x00\x01\x02", 3));
  EXPECT_THAT(elements<std::uint8_t>(read(booleans)), ElementsAre(0, 1, 1));
  i16.set_raw_data("abc");
  EXPECT_THAT(failure(i16), AllOf(HasSubstr("3 bytes"), HasSubstr("need 4"), HasSubstr("tensor=t")));
  auto strings = proto_of(8, {1});
  strings.set_raw_data("abc");
  EXPECT_THAT(failure(strings), HasSubstr("raw_data"));
}

TEST(TensorReader, RefusesDataInTwoFields) {
  auto proto = proto_of(onnx::TensorProto::FLOAT, {1});
  proto.set_raw_data(std::string(4, '\0'));
  EXPECT_EQ(failure(proto), "read");
  proto.add_float_data(1);
  EXPECT_THAT(failure(proto), AllOf(HasSubstr("raw_data"), HasSubstr("float_data"), HasSubstr("tensor=t")));
  proto.clear_raw_data();
  EXPECT_EQ(failure(proto), "read");
  proto.add_int64_data(1);
  EXPECT_THAT(failure(proto), AllOf(HasSubstr("float_data"), HasSubstr("int64_data"), HasSubstr("tensor=t")));
  auto empty = proto_of(onnx::TensorProto::STRING, {0});
  empty.add_uint64_data(1);
  empty.add_double_data(1);
  EXPECT_THAT(failure(empty), AllOf(HasSubstr("double_data"), HasSubstr("uint64_data")));
}

TEST(TensorReader, ReadsEmptyTensors) {
  EXPECT_EQ(read(proto_of(1, {0, 3})).elements(), 0);
  EXPECT_EQ(read(proto_of(8, {0})).elements(), 0);
}

TEST(TensorReader, RefusesImpossibleSizesBeforeAllocating) {
  EXPECT_THAT(failure(proto_of(1, {-1})), HasSubstr("-1"));
  EXPECT_THAT(failure(proto_of(1, {INT64_MAX, INT64_MAX})), HasSubstr("tensor=t"));
  EXPECT_THAT(failure(proto_of(11, {INT64_MAX / 4})), HasSubstr("tensor=t"));
  EXPECT_THAT(failure(proto_of(1, {1 << 30, 1 << 10})), HasSubstr("0 values"));
  EXPECT_THAT(failure(proto_of(1, std::vector<std::int64_t>(65, 1))), HasSubstr("rank 65"));
  EXPECT_THAT(failure(proto_of(0, {1})), HasSubstr("data type number 0"));
  EXPECT_THAT(failure(proto_of(99, {1})), HasSubstr("data type number 99"));
}

TEST(TensorReader, MakesSparseTensorsDense) {
  onnx::SparseTensorProto sparse;
  *sparse.mutable_values() = proto_of(1, {2});
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_values()->add_float_data(6);
  *sparse.mutable_indices() = proto_of(7, {2});
  sparse.mutable_indices()->add_int64_data(1);
  sparse.mutable_indices()->add_int64_data(5);
  sparse.add_dims(2);
  sparse.add_dims(3);
  EXPECT_THAT(elements<float>(read(sparse)), ElementsAre(0, 5, 0, 0, 0, 6));

  *sparse.mutable_indices() = proto_of(7, {2, 2});
  for (const int index : {0, 2, 1, 0}) sparse.mutable_indices()->add_int64_data(index);
  EXPECT_THAT(elements<float>(read(sparse)), ElementsAre(0, 0, 5, 6, 0, 0));

  sparse.mutable_indices()->set_int64_data(2, 0);
  sparse.mutable_indices()->set_int64_data(3, 2);
  EXPECT_THAT(failure(sparse), AllOf(HasSubstr("index 1"), HasSubstr("twice"), HasSubstr("t")));

  sparse.mutable_indices()->set_int64_data(1, 3);
  EXPECT_THAT(failure(sparse), HasSubstr("outside 2x3"));
  sparse.mutable_indices()->set_int64_data(1, -1);
  EXPECT_THAT(failure(sparse), HasSubstr("outside 2x3"));
  sparse.set_dims(0, INT64_MAX / 4);
  EXPECT_THAT(failure(sparse), ::testing::Not("read"));
  sparse.clear_dims();
  EXPECT_THAT(failure(sparse), HasSubstr("indices"));
}

TEST_F(TensorFolder, ReadsExternalData) {
  write("sub/weights.bin", "1234" + floats(4));
  const auto proto = external({3}, {{"location", "sub/weights.bin"}, {"offset", "8"}, {"length", "12"}});
  EXPECT_THAT(elements<float>(read_external(proto)), ElementsAre(1, 2, 3));
  // Without a length it is what the extents need.
  EXPECT_THAT(
      elements<float>(read_external(external({1}, {{"location", "sub/weights.bin"}, {"offset", "4"}}))),
      ElementsAre(0));
  // Out of alignment.
  write("odd.bin", "x" + floats(2));
  EXPECT_THAT(elements<float>(read_external(external({2}, {{"location", "odd.bin"}, {"offset", "1"}}))),
              ElementsAre(0, 1));
}

TEST_F(TensorFolder, ConfinesExternalData) {
  write("model/ok.bin", floats(2));
  write("secret.bin", floats(2));
  std::filesystem::create_symlink(folder / "secret.bin", folder / "model/link.bin");
  std::filesystem::create_directory_symlink(folder, folder / "model/up");
  ASSERT_EQ(::mkfifo((folder / "model/pipe").c_str(), 0600), 0);
  folder /= "model";
  const auto at = [&](const std::string& location) {
    return external_failure(external({2}, {{"location", location}}));
  };
  EXPECT_EQ(at("ok.bin"), "read");
  EXPECT_EQ(at("./ok.bin"), "read");
  EXPECT_THAT(at((folder / "ok.bin").string()), HasSubstr("not a path below"));
  EXPECT_THAT(at("../secret.bin"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(at("x/../../secret.bin"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(at("link.bin"), HasSubstr("symbolic link"));
  EXPECT_THAT(at("up/secret.bin"), ::testing::Not("read"));
  EXPECT_THAT(at("pipe"), HasSubstr("not a regular file"));
  EXPECT_THAT(at("."), ::testing::Not("read"));
  EXPECT_THAT(at(""), HasSubstr("not a path below"));
  EXPECT_THAT(at("absent.bin"), HasSubstr("absent.bin"));
  EXPECT_NE(at(std::string("ok.bin\0x", 8)), "read");
  folder = folder.parent_path();
}

TEST_F(TensorFolder, ChecksRangesOfExternalData) {
  write("w.bin", floats(4));
  const auto with = [&](const std::string& offset, const std::string& length) {
    return external_failure(external({2}, {{"location", "w.bin"}, {"offset", offset}, {"length", length}}));
  };
  EXPECT_EQ(with("8", "8"), "read");
  EXPECT_THAT(with("12", "8"), HasSubstr("16 bytes"));
  EXPECT_THAT(with("9223372036854775807", "8"), HasSubstr("16 bytes"));
  EXPECT_THAT(with("8", "9223372036854775807"), HasSubstr("16 bytes"));
  EXPECT_THAT(with("0", "4"), HasSubstr("need 8"));
  EXPECT_THAT(with("-8", "8"), HasSubstr("'-8'"));
  EXPECT_THAT(with("99999999999999999999", "8"), HasSubstr("offset"));
  EXPECT_THAT(with("8 ", "8"), HasSubstr("'8 '"));
  // What is said twice.
  EXPECT_THAT(external_failure(external({2}, {{"location", "none.bin"}, {"location", "w.bin"}})),
              HasSubstr("location twice"));
  auto both = external({2}, {{"location", "w.bin"}});
  both.set_raw_data(floats(2));
  EXPECT_THAT(external_failure(both), AllOf(HasSubstr("external_data"), HasSubstr("raw_data")));
  // No folder, no external data.
  EXPECT_THAT(failure(external({2}, {{"location", "w.bin"}})), HasSubstr("not allowed"));
}

TEST_F(TensorFolder, LeavesLargeDataInTheMappedFile) {
  const std::string data = floats(4096);
  onnx::ModelProto model;
  auto* tensor = model.mutable_graph()->add_initializer();
  *tensor = proto_of(1, {4096});
  tensor->set_raw_data(data);
  const std::string text = model.SerializeAsString();
  onnx::ModelProto parsed;
  const auto payloads = parse(std::as_bytes(std::span(text)), WireLimits{}, "it", parsed);
  ASSERT_EQ(payloads.size(), 1U);
  EXPECT_EQ(payloads[0].size(), data.size());
  EXPECT_TRUE(parsed.graph().initializer(0).raw_data().empty());
  EXPECT_LT(parsed.ByteSizeLong(), 100U);

  // Read without an owner it is copied, with one it stays where it is if aligned.
  TensorStorage storage;
  storage.payloads = payloads;
  storage.owner = std::make_shared<int>(0);
  TensorReader reader(storage);
  const Tensor shared = reader.read(parsed.graph().initializer(0));
  const bool aligned = reinterpret_cast<std::uintptr_t>(payloads[0].data()) % alignof(float) == 0;
  EXPECT_EQ(shared.data() == payloads[0].data(), aligned);
  storage.owner = nullptr;
  TensorReader copying(storage);
  const Tensor copied = copying.read(parsed.graph().initializer(0));
  EXPECT_NE(copied.data(), payloads[0].data());
  EXPECT_TRUE(shared == copied);
  EXPECT_EQ(copied.as<float>()[4095], 4095);
}

TEST(Wire, DropsForeignPayloadFields) {
  onnx::ModelProto model;
  auto* tensor = model.mutable_graph()->add_initializer();
  *tensor = proto_of(1, {1});
  tensor->add_float_data(7);
  tensor->mutable_unknown_fields()->AddVarint(19000, 0);
  auto* attribute = model.mutable_graph()->add_node()->add_attribute();
  *attribute->mutable_t() = *tensor;
  const std::string text = model.SerializeAsString();
  onnx::ModelProto parsed;
  EXPECT_TRUE(parse(std::as_bytes(std::span(text)), WireLimits{}, "it", parsed).empty());
  EXPECT_FALSE(payload_index(parsed.graph().initializer(0)));
  EXPECT_FALSE(payload_index(parsed.graph().node(0).attribute(0).t()));
}

TEST(Wire, BoundsDepthFieldsAndBytes) {
  onnx::ModelProto model;
  onnx::GraphProto* graph = model.mutable_graph();
  for (int i = 0; i < 200; ++i) graph = graph->add_node()->add_attribute()->mutable_g();
  const std::string deep = model.SerializeAsString();
  onnx::ModelProto parsed;
  const auto message = [&](const std::string& text, const WireLimits& limits) -> std::string {
    try {
      parse(std::as_bytes(std::span(text)), limits, "it", parsed);
    } catch (const Error& error) {
      return error.what();
    }
    return "parsed";
  };
  EXPECT_THAT(message(deep, {}), HasSubstr("deeper than 256"));
  WireLimits loose;
  loose.depth = 700;
  EXPECT_EQ(message(deep, loose), "parsed");
  onnx::ModelProto wide;
  for (int i = 0; i < 100; ++i) wide.mutable_graph()->add_node()->set_doc_string("text");
  WireLimits few;
  few.fields = 100;
  EXPECT_THAT(message(wide.SerializeAsString(), few), HasSubstr("more than 100 fields"));
  WireLimits small;
  small.bytes = 100;
  EXPECT_THAT(message(wide.SerializeAsString(), small), HasSubstr("more than 100 bytes"));
  EXPECT_THAT(message(std::string("\x3b\x3c", 2), {}), HasSubstr("groups"));
  EXPECT_THAT(message(std::string("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11), {}),
              HasSubstr("beyond"));
  EXPECT_THAT(message(std::string("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 13), {}),
              HasSubstr("10 bytes"));
}

// --- tensor files

TEST_F(TensorFolder, TensorFilesRoundTrip) {
  const std::string path = (folder / "t.pb").string();
  std::vector<float> values(2000);
  std::iota(values.begin(), values.end(), -3.5F);
  const Tensor large = Tensor::from(DType::F32, {2, 1000}, std::span<const float>(values));
  write_tensor_pb(path, large, "large");
  const DatumFile read_back = read_datum_pb(path);
  EXPECT_EQ(read_back.name, "large");
  EXPECT_TRUE(read_back.datum.tensor() == large);

  const std::string texts[] = {"", "two"};
  const Tensor strings = Tensor::from(DType::String, {2, 1}, std::span<const std::string>(texts));
  write_tensor_pb(path, strings);
  EXPECT_TRUE(read_datum_pb(path).datum.tensor() == strings);

  for (int type = 0; type <= static_cast<int>(DType::C128); ++type) {
    const auto dtype = static_cast<DType>(type);
    Tensor tensor(dtype, {3, 5});
    for (std::int64_t i = 0; i < tensor.byte_size(); ++i) tensor.mutable_data()[i] = std::byte{1};
    write_tensor_pb(path, tensor);
    EXPECT_TRUE(read_datum_pb(path).datum.tensor() == tensor) << name(dtype);
    EXPECT_EQ(dtype_from_onnx(onnx_data_type(dtype)), dtype);
  }
  EXPECT_THROW(write_tensor_pb((folder / "absent/t.pb").string(), large), Error);
}

TEST_F(TensorFolder, SequencesAndOptionalsAreRead) {
  // SequenceProto { name = 1, elem_type = 2 (1: tensors), tensor_values = 3 }, OptionalProto { name = 1,
  // elem_type = 2, tensor_value = 3 } on the wire.
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
  };
  auto one = proto_of(7, {1}), two = proto_of(7, {2});
  one.add_int64_data(1);
  two.add_int64_data(2);
  two.add_int64_data(3);
  const std::string type("\x10\x01", 2);
  write("s.pb",
        field(1, "seq") + type + field(3, one.SerializeAsString()) + field(3, two.SerializeAsString()));
  const DatumFile sequence = read_datum_pb((folder / "s.pb").string(), Container::Sequence);
  EXPECT_EQ(sequence.name, "seq");
  EXPECT_EQ(sequence.datum.sequence().dtype, DType::I64);
  const auto& items = sequence.datum.sequence().items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_THAT(elements<std::int64_t>(items[1].tensor()), ElementsAre(2, 3));

  write("o.pb", field(1, "opt") + type + field(3, one.SerializeAsString()));
  const DatumFile optional = read_datum_pb((folder / "o.pb").string(), Container::Optional);
  EXPECT_THAT(elements<std::int64_t>(optional.datum.tensor()), ElementsAre(1));
  write("n.pb", field(1, "none"));
  const DatumFile none = read_datum_pb((folder / "n.pb").string(), Container::Optional);
  EXPECT_FALSE(none.datum.has_value());
}

TEST_F(TensorFolder, DamagedTensorFilesAreRefused) {
  auto proto = proto_of(1, {2000});
  proto.set_raw_data(floats(2000));
  const std::string text = proto.SerializeAsString();
  for (std::size_t length = 0; length < text.size(); length += 97) {
    write("t.pb", text.substr(0, length));
    try {
      read_datum_pb((folder / "t.pb").string());
      FAIL() << "a prefix of " << length << " bytes was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller);
      EXPECT_THAT(error.what(), HasSubstr("t.pb"));
    }
  }
}

}  // namespace
}  // namespace kiln::frontend
