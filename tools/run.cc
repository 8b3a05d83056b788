#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <kiln/tensor_file.h>

#include "tools/arguments.h"
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

// Extremes and mean of `count` numbers, NaN aside.
template <typename Get>
std::string range(std::int64_t count, const Get& get) {
  using Number = decltype(get(0));
  Number low = std::numeric_limits<Number>::max(), high = std::numeric_limits<Number>::lowest();
  if constexpr (std::is_floating_point_v<Number>) low = HUGE_VAL, high = -HUGE_VAL;
  double sum = 0;
  std::int64_t numbers = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Number value = get(i);
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) continue;
    }
    ++numbers;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += static_cast<double>(value);
  }
  if (numbers == 0) return "  all NaN";
  const std::string mean = fmt::format("  mean {:.6g}", sum / static_cast<double>(numbers));
  const std::string others = numbers < count ? fmt::format("  NaN {}", count - numbers) : "";
  if constexpr (std::is_floating_point_v<Number>)
    return fmt::format("  min {:.6g}  max {:.6g}{}{}", low, high, mean, others);
  return fmt::format("  min {}  max {}{}", low, high, mean);
}

// To see at a glance that an output is sane.
std::string summary(const Tensor& tensor) {
  const DTypeClass kind = dtype_class(tensor.dtype());
  if (tensor.elements() == 0 || kind == DTypeClass::String || kind == DTypeClass::Complex) return {};
  const auto elements_as = [&]<typename T>(T) {
    return range(tensor.elements(),
                 [all = tensor.as<T>()](std::int64_t i) { return all[static_cast<std::size_t>(i)]; });
  };
  // Those that f64 cannot hold.
  if (tensor.dtype() == DType::I64) return elements_as(std::int64_t{});
  if (tensor.dtype() == DType::U64) return elements_as(std::uint64_t{});
  if (kind == DTypeClass::Float)
    return range(tensor.elements(), [&](std::int64_t i) { return tensor.number(i); });
  return range(tensor.elements(),
               [&](std::int64_t i) { return static_cast<std::int64_t>(tensor.number(i)); });
}

// Writes outputs into a folder, each under a name of its own.
class OutputFolder {
 public:
  explicit OutputFolder(std::string path) : path_(std::move(path)) { make_folder(path_); }

  void write(const std::string& output, const Tensor& tensor) {
    std::string name = file_name(output);
    while (!names_.insert(name).second) name += '_';
    write_tensor(path_ + "/" + name + ".npy", tensor, output);
  }

 private:
  std::string path_;
  std::set<std::string> names_;
};

// One line for a tensor, and its file; the same for each tensor of a sequence or map.
void show(const std::string& output, const Datum& datum, OutputFolder* folder) {
  fmt::print("{}: {}{}\n", printable(output), to_string(datum),
             datum.is_tensor() ? summary(datum.tensor()) : "");
  if (datum.is_tensor() && folder != nullptr) {
    folder->write(output, datum.tensor());
  } else if (datum.is_sequence()) {
    const std::vector<Datum>& items = datum.sequence().items;
    for (std::size_t i = 0; i < items.size(); ++i) show(fmt::format("{}.{}", output, i), items[i], folder);
  } else if (datum.is_map()) {
    show(output + ".values", datum.map().values, folder);
  }
}

void run(const GlobalOptions& global, const RunOptions& options) {
  options.inputs.check();
  Progress progress;
  progress.show("loading " + options.model);
  const Session session = Session::load(options.model, global.session_options());
  const ModelInputs inputs = make_inputs(session, options.inputs);
  std::optional<OutputFolder> folder;
  if (!options.output_dir.empty()) folder.emplace(options.output_dir);
  progress.show("compiling and running");
  const std::vector<Datum> outputs = run_once(session, inputs);
  progress.show("");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    show(session.outputs()[i].name, outputs[i], folder ? &*folder : nullptr);
  }
  const SessionStats stats = session.stats();
  fmt::print("{} kernels compiled, {} from the cache, {} nodes on reference kernels\n",
             stats.kernels_compiled, stats.kernels_from_cache, stats.fallback_nodes);
}

}  // namespace

void add_run(CLI::App& app, const GlobalOptions& global, int&) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "run a model once");
  add_value(*command, "model", options->model, parse_text, "ONNX file")->type_name("MODEL")->required();
  options->inputs.add_to(*command, true);
  add_value(*command, "--output-dir", options->output_dir, parse_text,
            "folder for the outputs, one .npy file each")
      ->type_name("FOLDER");
  command->footer(
      "Prints dtype and shape of every output, and the range and mean of its numbers. Inputs that no file "
      "gives\n"
      "are random: floats in [-1, 1), integers in [0, 100), true; those with a default value in the model "
      "(its\n"
      "initializers that are inputs too) keep it.\n");
  command->callback([&global, options] { run(global, *options); });
}

}  // namespace kiln::tools
