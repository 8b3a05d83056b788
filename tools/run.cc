#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <kiln/tensor_file.h>

#include "tools/command.h"

namespace kiln::tools {
namespace {

struct RunOptions {
  std::string model, output_dir;
  InputOptions inputs;
};

// A value's name as a file name.
std::string file_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  return name;
}

// Extremes and mean, to see at a glance that an output is sane.
std::string summary(const Tensor& tensor) {
  if (tensor.dtype() != DType::F32 || tensor.elements() == 0) return {};
  double low = HUGE_VAL, high = -HUGE_VAL, sum = 0;
  for (const float value : tensor.as<float>()) {
    low = std::fmin(low, static_cast<double>(value));
    high = std::fmax(high, static_cast<double>(value));
    sum += static_cast<double>(value);
  }
  return fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", low, high,
                     sum / static_cast<double>(tensor.elements()));
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw Error(ErrorKind::Environment, ErrorCode::Io,
                fmt::format("cannot make the folder {}: {}", path, error.message()));
}

// One line for a tensor, and its file; the same for each tensor of a sequence or map.
void show(const std::string& output, const Datum& datum, const std::string& folder) {
  fmt::print("{}: {}{}\n", output, to_string(datum), datum.is_tensor() ? summary(datum.tensor()) : "");
  if (datum.is_tensor() && !folder.empty()) {
    write_tensor(folder + "/" + file_name(output) + ".npy", datum.tensor(), output);
  } else if (datum.is_sequence()) {
    const std::vector<Datum>& items = datum.sequence().items;
    for (std::size_t i = 0; i < items.size(); ++i) show(fmt::format("{}.{}", output, i), items[i], folder);
  } else if (datum.is_map()) {
    show(output + ".values", datum.map().values, folder);
  }
}

void run(const GlobalOptions& global, const RunOptions& options) {
  Progress progress;
  progress.show("loading " + options.model);
  const Session session = Session::load(options.model, global.session_options());
  const std::vector<NamedDatum> inputs = make_inputs(session, options.inputs);
  progress.show("compiling and running");
  const std::vector<Datum> outputs = session.run(std::span<const NamedDatum>(inputs));
  progress.show("");
  if (!options.output_dir.empty()) make_folder(options.output_dir);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    show(session.outputs()[i].name, outputs[i], options.output_dir);
  }
  const SessionStats stats = session.stats();
  fmt::print("{} kernels compiled, {} from the cache, {} nodes on reference kernels\n",
             stats.kernels_compiled, stats.kernels_from_cache, stats.fallback_nodes);
}

}  // namespace

void add_run(CLI::App& app, const GlobalOptions& global, int&) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "run a model once");
  command->add_option("model", options->model, "ONNX file")->type_name("MODEL")->required();
  options->inputs.add_to(*command, true);
  command->add_option("--output-dir", options->output_dir, "folder for the outputs, one .npy file each")
      ->type_name("FOLDER");
  command->footer(
      "Prints dtype, shape and range of every output. Inputs that no file gives are random: floats in [-1, "
      "1),\n"
      "integers in [0, 100), true.\n");
  command->callback([&global, options] { run(global, *options); });
}

}  // namespace kiln::tools
