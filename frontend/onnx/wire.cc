#include "frontend/onnx/wire.h"

#include <cstring>
#include <limits>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>

#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

enum class WireType : std::uint32_t {
  Varint = 0,
  Fixed64 = 1,
  Bytes = 2,
  GroupStart = 3,
  GroupEnd = 4,
  Fixed32 = 5
};

// Takes the place of raw_data and holds the payload's index. Protobuf reserves the numbers from 19000 to
// 19999 for implementations, so no schema can use it; one that is in the input is dropped.
constexpr std::uint32_t kPayloadField = 19000;

// Later versions of the format: FunctionProto.attribute_proto, FunctionProto.overload, NodeProto.overload.
constexpr int kFunctionAttributeField = 11;
constexpr int kFunctionOverloadField = 13;
constexpr int kNodeOverloadField = 8;

// Width of the lengths written in place of those read: what a message shrinks to is known only after it has
// been copied, so its length gets room for any 32-bit number and leading zero groups.
constexpr std::size_t kLengthBytes = 5;

// Copies a message field by field, following the schema into nested messages.
class Extractor {
 public:
  Extractor(const WireLimits& limits, std::string_view description)
      : limits_(limits), description_(description) {}

  void copy(std::span<const std::byte> message, const Descriptor* type, int depth);

  std::string text;  // for protobuf
  std::vector<std::span<const std::byte>> payloads;

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw_caller(ErrorCode::InvalidModel, "{} is damaged or not an ONNX file: {}", description_, what);
  }
  std::uint64_t read_varint(std::span<const std::byte>& rest) const;
  std::span<const std::byte> take(std::span<const std::byte>& rest, std::uint64_t size) const;
  void append(std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (static_cast<std::int64_t>(text.size()) > limits_.bytes) {
      throw_caller(ErrorCode::LimitExceeded, "{} has more than {} bytes besides its weights", description_,
                   limits_.bytes);
    }
  }
  void append_varint(std::uint64_t value);
  static const Descriptor* nested_type(const Descriptor* type, std::uint32_t number);

  const WireLimits& limits_;
  std::string_view description_;
  std::int64_t fields_ = 0;
};

std::uint64_t Extractor::read_varint(std::span<const std::byte>& rest) const {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) fail("it ends inside a number");
    const auto byte = std::to_integer<std::uint64_t>(rest.front());
    rest = rest.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number is longer than 10 bytes");
}

std::span<const std::byte> Extractor::take(std::span<const std::byte>& rest, std::uint64_t size) const {
  if (size > rest.size()) fail("a field ends beyond its message");
  const auto taken = rest.first(static_cast<std::size_t>(size));
  rest = rest.subspan(static_cast<std::size_t>(size));
  return taken;
}

void Extractor::append_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text.push_back(static_cast<char>(value | 0x80));
  text.push_back(static_cast<char>(value));
}

const Descriptor* Extractor::nested_type(const Descriptor* type, std::uint32_t number) {
  if (number > static_cast<std::uint32_t>(FieldDescriptor::kMaxNumber)) return nullptr;
  const int field_number = static_cast<int>(number);
  if (type == onnx::FunctionProto::descriptor() && field_number == kFunctionAttributeField) {
    return onnx::AttributeProto::descriptor();
  }
  const FieldDescriptor* field = type->FindFieldByNumber(field_number);
  return field == nullptr ? nullptr : field->message_type();
}

void Extractor::copy(std::span<const std::byte> message, const Descriptor* type, int depth) {
  if (depth > limits_.depth) {
    throw_caller(ErrorCode::LimitExceeded, "{} nests messages deeper than {}", description_, limits_.depth);
  }
  const bool is_tensor = type == onnx::TensorProto::descriptor();
  std::span<const std::byte> rest = message;
  while (!rest.empty()) {
    const std::span<const std::byte> field = rest;
    const std::uint64_t tag = read_varint(rest);
    if (tag > std::numeric_limits<std::uint32_t>::max() || tag >> 3 == 0)
      fail("a field has an impossible number");
    const auto number = static_cast<std::uint32_t>(tag >> 3);
    std::span<const std::byte> content;
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::Varint:
        read_varint(rest);
        break;
      case WireType::Fixed64:
        take(rest, 8);
        break;
      case WireType::Fixed32:
        take(rest, 4);
        break;
      case WireType::Bytes:
        content = take(rest, read_varint(rest));
        break;
      case WireType::GroupStart:
      case WireType::GroupEnd:
        fail("it has groups, which the format does not use");
      default:
        fail("a field has an impossible type");
    }
    if (is_tensor && number == kPayloadField) continue;
    const bool is_bytes = static_cast<WireType>(tag & 7) == WireType::Bytes;
    if (is_bytes && ++fields_ > limits_.fields) {
      throw_caller(ErrorCode::LimitExceeded, "{} has more than {} fields", description_, limits_.fields);
    }
    const Descriptor* nested = is_bytes ? nested_type(type, number) : nullptr;
    if (nested != nullptr) {
      append_varint(tag);
      const std::size_t length_at = text.size();
      text.append(kLengthBytes, '\0');
      copy(content, nested, depth + 1);
      std::size_t length = text.size() - length_at - kLengthBytes;
      for (std::size_t i = 0; i < kLengthBytes; ++i, length >>= 7) {
        text[length_at + i] = static_cast<char>((length & 0x7f) | (i + 1 < kLengthBytes ? 0x80 : 0));
      }
    } else if (is_tensor && is_bytes && number == onnx::TensorProto::kRawDataFieldNumber &&
               content.size() >= kPayloadBytes) {
      append_varint(kPayloadField << 3 | static_cast<std::uint32_t>(WireType::Varint));
      append_varint(payloads.size());
      payloads.push_back(content);
    } else {
      append(field.first(field.size() - rest.size()));
    }
  }
}

const std::string* unknown_text(const google::protobuf::UnknownFieldSet& fields, int number) {
  const std::string* found = nullptr;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      found = &field.length_delimited();
    }
  }
  return found;
}

}  // namespace

std::vector<std::span<const std::byte>> parse(std::span<const std::byte> bytes, const WireLimits& limits,
                                              std::string_view description,
                                              google::protobuf::Message& message) {
  if (bytes.empty()) throw_caller(ErrorCode::InvalidModel, "{} is empty", description);
  Extractor extractor(limits, description);
  extractor.copy(bytes, message.GetDescriptor(), 0);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(extractor.text.data()),
                                                static_cast<int>(extractor.text.size()));
  stream.SetRecursionLimit(limits.depth + 1);
  if (!message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw_caller(ErrorCode::InvalidModel, "{} is damaged or not an ONNX file: protobuf refuses it",
                 description);
  }
  return std::move(extractor.payloads);
}

std::optional<std::size_t> payload_index(const onnx::TensorProto& tensor) {
  const auto& fields = tensor.unknown_fields();
  std::optional<std::size_t> index;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == static_cast<int>(kPayloadField)) index = static_cast<std::size_t>(field.varint());
  }
  return index;
}

std::string overload(const onnx::NodeProto& node) {
  const std::string* found = unknown_text(node.unknown_fields(), kNodeOverloadField);
  return found == nullptr ? std::string() : *found;
}

std::string overload(const onnx::FunctionProto& function) {
  const std::string* found = unknown_text(function.unknown_fields(), kFunctionOverloadField);
  return found == nullptr ? std::string() : *found;
}

std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> attributes;
  const auto& fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() != kFunctionAttributeField ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (!attributes.emplace_back().ParseFromString(field.length_delimited())) {
      throw_caller(ErrorCode::InvalidModel, "function '{}' has a damaged default attribute", function.name());
    }
  }
  return attributes;
}

}  // namespace kiln::frontend
