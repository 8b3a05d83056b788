// Protobuf's wire format, read so far that weights never pass through protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

namespace kiln::frontend {

struct WireLimits {
  int depth = 256;                               // nested messages
  std::int64_t fields = std::int64_t{16} << 20;  // messages and strings: each costs protobuf an allocation
  std::int64_t bytes = std::int64_t{1} << 30;    // what is left for protobuf after payloads are taken out
};

// raw_data of this many bytes and more stays where it is.
constexpr std::size_t kPayloadBytes = 1024;

// Parses `bytes` into `message`, but leaves the raw_data of large TensorProtos out: those tensors carry a
// payload instead, a span of `bytes`. `description` names the source in messages. Throws Error (caller,
// invalid_model or limit_exceeded) on malformed input. Returns the payloads.
std::vector<std::span<const std::byte>> parse(std::span<const std::byte> bytes, const WireLimits& limits,
                                              std::string_view description,
                                              google::protobuf::Message& message);

// Index of the tensor's payload in what parse() returned; nothing if its data are in its ordinary fields.
std::optional<std::size_t> payload_index(const onnx::TensorProto& tensor);

// Fields that newer versions of the format added and this schema keeps as unknown.
std::string overload(const onnx::NodeProto& node);
std::string overload(const onnx::FunctionProto& function);
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function);

}  // namespace kiln::frontend
