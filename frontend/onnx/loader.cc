#include "frontend/onnx/loader.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "frontend/onnx/declared_types.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/mapped_file.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/wire.h"
#include "ir/base/errors.h"

namespace kiln::frontend {

struct ModelSource::Contents {
  onnx::ModelProto model;
  TensorReader tensors;
};

namespace {

using Payloads = std::vector<std::span<const std::byte>>;

Payloads parse_model(std::span<const std::byte> bytes, const std::string& description,
                     const LoadLimits& limits, onnx::ModelProto& model) {
  // A graph within a graph is three messages deeper: node, attribute, graph.
  WireLimits wire;
  wire.depth = 3 * limits.nesting + 16;
  Payloads payloads = parse(bytes, wire, description, model);
  if (!model.has_graph()) throw_caller(ErrorCode::InvalidModel, "{} has no graph", description);
  return payloads;
}

// Copies the payloads into one tensor, aligned so that constants can be spans of it.
std::shared_ptr<const void> own(Payloads& payloads) {
  constexpr std::size_t kAlignment = 64;
  const auto aligned = [](std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; };
  std::size_t total = 0;
  for (const auto& payload : payloads) total += aligned(payload.size());
  const auto storage = std::make_shared<Tensor>(DType::U8, Extents{static_cast<std::int64_t>(total)});
  std::byte* next = storage->mutable_data();
  for (auto& payload : payloads) {
    std::copy(payload.begin(), payload.end(), next);
    payload = {next, payload.size()};
    next += aligned(payload.size());
  }
  return storage;
}

}  // namespace

ModelSource::ModelSource(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ModelSource::ModelSource(ModelSource&&) noexcept = default;
ModelSource& ModelSource::operator=(ModelSource&&) noexcept = default;
ModelSource::~ModelSource() = default;

ModelSource ModelSource::open(const std::string& path, const LoadLimits& limits) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, limits.model_bytes);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  onnx::ModelProto model;
  TensorStorage storage;
  storage.payloads = parse_model(file->bytes(), "'" + path + "'", limits, model);
  storage.owner = file;
  storage.folder = folder.empty() ? "." : folder.string();
  storage.max_external_bytes = limits.external_bytes;
  return ModelSource(std::make_unique<Contents>(std::move(model), TensorReader(std::move(storage))));
}

ModelSource ModelSource::from_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                    const LoadLimits& limits) {
  onnx::ModelProto model;
  TensorStorage storage;
  storage.payloads = parse_model(bytes, "the model", limits, model);
  storage.owner = own(storage.payloads);
  if (!folder.empty()) storage.folder = folder;
  storage.max_external_bytes = limits.external_bytes;
  return ModelSource(std::make_unique<Contents>(std::move(model), TensorReader(std::move(storage))));
}

graph::Graph ModelSource::graph(const LoadOptions& options) {
  return import_model(contents_->model, contents_->tensors, options);
}

std::vector<ValueInfo> ModelSource::defaults(const LoadOptions& options) const {
  return default_inputs(contents_->model, options);
}

graph::Graph load_model(const std::string& path, const LoadOptions& options) {
  return ModelSource::open(path, options.limits).graph(options);
}

graph::Graph load_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const LoadOptions& options) {
  return ModelSource::from_bytes(bytes, folder, options.limits).graph(options);
}

}  // namespace kiln::frontend
