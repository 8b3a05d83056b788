#include "frontend/onnx/loader.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <onnx/onnx_pb.h>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/mapped_file.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/wire.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

graph::Graph load(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                  std::optional<std::string> folder, const std::string& description,
                  const LoadOptions& options) {
  // A graph within a graph is three messages deeper: node, attribute, graph.
  WireLimits wire;
  wire.depth = 3 * options.limits.nesting + 16;
  onnx::ModelProto model;
  TensorStorage storage;
  storage.payloads = parse(bytes, wire, description, model);
  if (!model.has_graph()) throw_caller(ErrorCode::InvalidModel, "{} has no graph", description);
  storage.owner = std::move(owner);
  storage.folder = std::move(folder);
  storage.max_external_bytes = options.limits.external_bytes;
  TensorReader tensors(std::move(storage));
  return import_model(model, tensors, options);
}

}  // namespace

graph::Graph load_model(const std::string& path, const LoadOptions& options) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, options.limits.model_bytes);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return load(file->bytes(), file, folder.empty() ? "." : folder.string(), "'" + path + "'", options);
}

graph::Graph load_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const LoadOptions& options) {
  const std::optional<std::string> place = folder.empty() ? std::nullopt : std::optional(folder);
  return load(bytes, nullptr, place, "the model", options);
}

}  // namespace kiln::frontend
