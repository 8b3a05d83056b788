#include "frontend/onnx/tensor_file.h"

#include <fstream>
#include <utility>

#include <onnx/onnx-data_pb.h>
#include <onnx/onnx_pb.h>

#include "frontend/onnx/mapped_file.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/wire.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

// Parses a file's bytes as one message; tensors in it are then read by `reader()`.
template <typename Proto>
class TensorMessage {
 public:
  TensorMessage(const std::string& path, std::int64_t max_bytes) : file_(MappedFile::open(path, max_bytes)) {
    TensorStorage storage;
    storage.payloads = parse(file_->bytes(), WireLimits{}, "'" + path + "'", proto);
    storage.owner = file_;
    reader_.emplace(std::move(storage));
  }
  TensorReader& reader() { return *reader_; }

  Proto proto;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::optional<TensorReader> reader_;
};

Sequence read_sequence(const onnx::SequenceProto& proto, DType dtype, TensorReader& reader) {
  const int others = proto.sparse_tensor_values_size() + proto.sequence_values_size() +
                     proto.map_values_size() + proto.optional_values_size();
  if (others > 0)
    throw_caller(ErrorCode::Unsupported, "the sequence '{}' holds others than tensors", proto.name());
  Sequence sequence{dtype, {}};
  for (const auto& tensor : proto.tensor_values()) {
    sequence.items.emplace_back(reader.read(tensor));
    sequence.dtype = sequence.items.back().tensor().dtype();
  }
  return sequence;
}

Datum read_optional(const onnx::OptionalProto& proto, DType dtype, TensorReader& reader) {
  if (proto.has_tensor_value()) return reader.read(proto.tensor_value());
  if (proto.has_sequence_value()) return read_sequence(proto.sequence_value(), dtype, reader);
  if (proto.has_sparse_tensor_value() || proto.has_map_value() || proto.has_optional_value()) {
    throw_caller(ErrorCode::Unsupported, "the optional '{}' holds neither a tensor nor a sequence",
                 proto.name());
  }
  return {};
}

}  // namespace

DatumFile read_datum_pb(const std::string& path, Container container, DType dtype, std::int64_t max_bytes) {
  try {
    switch (container) {
      case Container::Tensor: {
        TensorMessage<onnx::TensorProto> message(path, max_bytes);
        return {message.proto.name(), message.reader().read(message.proto)};
      }
      case Container::Sequence: {
        TensorMessage<onnx::SequenceProto> message(path, max_bytes);
        return {message.proto.name(), read_sequence(message.proto, dtype, message.reader())};
      }
      case Container::Optional:
      case Container::OptionalSequence: {
        TensorMessage<onnx::OptionalProto> message(path, max_bytes);
        return {message.proto.name(), read_optional(message.proto, dtype, message.reader())};
      }
      case Container::Map:
      case Container::MapSequence:
        throw_caller(ErrorCode::Unsupported, "maps are not read from files");
    }
  } catch (Error& error) {
    throw error.with("file", path);
  }
  throw_bug("unknown container");
}

void write_tensor_pb(const std::string& path, const Tensor& tensor, const std::string& name) {
  constexpr std::int64_t kMaxBytes = (std::int64_t{1} << 31) - 4096;
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(static_cast<std::int32_t>(onnx_data_type(tensor.dtype())));
  for (const std::int64_t extent : tensor.extents()) proto.add_dims(extent);
  if (tensor.dtype() == DType::String) {
    for (const std::string& text : tensor.as<std::string>()) proto.add_string_data(text);
  } else if (tensor.byte_size() <= kMaxBytes) {
    proto.set_raw_data(tensor.data(), static_cast<std::size_t>(tensor.byte_size()));
  }
  if (tensor.byte_size() > kMaxBytes || proto.ByteSizeLong() > static_cast<std::size_t>(kMaxBytes)) {
    throw_caller(ErrorCode::LimitExceeded, "a tensor of {} bytes does not fit into a protobuf file",
                 tensor.byte_size());
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file || !proto.SerializeToOstream(&file) || !file.flush()) {
    throw_environment(ErrorCode::Io, "cannot write '{}'", path);
  }
}

}  // namespace kiln::frontend
