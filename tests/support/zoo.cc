#include "tests/support/zoo.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/support/interpreted_run.h"

namespace kiln::testing {
namespace {

namespace fs = std::filesystem;

double element(const Tensor& tensor, std::size_t i) {
  return tensor.dtype() == DType::F64 ? tensor.as<double>()[i] : static_cast<double>(tensor.as<float>()[i]);
}

}  // namespace

std::optional<std::string> shared_folder() {
  const char* named = std::getenv("KILN_SHARED");
  const fs::path path = named != nullptr ? fs::path(named) : fs::path(KILN_SOURCE_DIR) / ".." / "shared";
  if (!fs::is_directory(path)) return std::nullopt;
  return path.string();
}

std::optional<std::string> zoo_model(const std::string& name) {
  const auto shared = shared_folder();
  if (!shared) return std::nullopt;
  const fs::path folder = fs::temp_directory_path() / fmt::format("kiln-zoo-{}", ::getuid());
  const fs::path model = folder / (name + ".onnx");
  if (fs::exists(model)) return model.string();
  fs::create_directories(folder);
  // Made aside and moved into place, so that tests that run at once never see half a model.
  const fs::path making = folder / fmt::format("making-{}-{}", name, ::getpid());
  const std::string command = fmt::format(
      "/usr/bin/python3 '{}/zoo/gen_zoo.py' '{}' --only {} > /dev/null 2>&1", *shared, making.string(), name);
  // The generator is a program; its arguments are ours.
  // NOLINTNEXTLINE(bugprone-command-processor)
  if (std::system(command.c_str()) != 0 || !fs::exists(making / (name + ".onnx"))) return std::nullopt;
  fs::rename(making / (name + ".onnx"), model);
  fs::remove_all(making);
  return model.string();
}

std::vector<NamedTensor> random_inputs(const Session& session,
                                       const std::vector<std::pair<std::string, std::int64_t>>& dims,
                                       std::uint64_t seed) {
  std::vector<NamedTensor> inputs;
  for (const ValueInfo& info : session.inputs()) {
    Extents extents;
    for (const DimInfo& dim : *info.shape) {
      std::int64_t extent = dim.extent;
      for (const auto& [symbol, value] : dims) {
        if (dim.extent < 0 && symbol == dim.symbol) extent = value;
      }
      extents.push_back(extent);
    }
    Tensor tensor(info.dtype, extents);
    if (info.dtype == DType::I64) {
      std::mt19937_64 random(seed + inputs.size());
      const bool mask = info.name.find("mask") != std::string::npos;
      const bool types = info.name.find("type") != std::string::npos;
      std::uniform_int_distribution<std::int64_t> ids(0, 99);
      for (std::int64_t& value : tensor.as_mutable<std::int64_t>())
        value = mask ? 1 : types ? 0 : ids(random);
    } else {
      tensor = random_tensor(info.dtype, extents, seed + inputs.size());
    }
    inputs.push_back({info.name, std::move(tensor)});
  }
  return inputs;
}

double relative_error(const Tensor& got, const Tensor& want) {
  if (got.extents() != want.extents()) return HUGE_VAL;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.elements()); ++i) {
    const double w = element(want, i), d = element(got, i) - w;
    difference += d * d;
    size += w * w;
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

}  // namespace kiln::testing
