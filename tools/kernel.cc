#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <kiln/kernel.h>
#include <kiln/tensor_file.h>

#include "tools/arguments.h"
#include "tools/command.h"

namespace kiln::tools {
namespace {

constexpr std::int64_t kMaxSourceBytes = 16 << 20;

struct KernelOptions {
  std::string file, name, listing;
  KernelParameters parameters;
  std::map<std::string, std::string> arguments;
  std::map<std::string, std::vector<std::int64_t>> extents;
  std::string output_dir;
  std::uint64_t seed = 1;
  bool interpret = false;
};

std::string read_source(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    refuse(fmt::format("{} is not a regular file", path));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw Error(ErrorKind::Environment, ErrorCode::Io, fmt::format("cannot open {}", path));
  if (file.tellg() > kMaxSourceBytes) refuse(fmt::format("{} is too large for tile text", path));
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<KernelInfo> kernels_in(const std::string& source, const KernelOptions& options) {
  std::vector<KernelInfo> kernels = check_kernels(source, options.file, options.parameters);
  if (kernels.empty()) refuse(fmt::format("{} has no kernel", options.file));
  return kernels;
}

void check(const KernelOptions& options) {
  for (const KernelInfo& kernel : kernels_in(read_source(options.file), options))
    fmt::print("{}", kernel.text);
}

// Every --arg and --extents must name a parameter of the kernel.
void check_names(const KernelInfo& kernel, const KernelOptions& options) {
  const auto check_name = [&](const std::string& given) {
    std::string known;
    for (const KernelParameterInfo& parameter : kernel.parameters) {
      if (parameter.name == given) return;
      known += (known.empty() ? "" : ", ") + parameter.name;
    }
    refuse(fmt::format("kernel {} has no parameter {}; its parameters are: {}", kernel.name, given, known));
  };
  for (const auto& [name, value] : options.arguments) check_name(name);
  for (const auto& [name, extents] : options.extents) check_name(name);
}

// An argument of a view parameter from --arg NAME=FILE, or random with extents from --extents NAME:AxB.
Tensor view_argument(const KernelParameterInfo& parameter, const KernelOptions& options, std::uint64_t seed) {
  if (const auto file = options.arguments.find(parameter.name); file != options.arguments.end())
    return read_tensor(file->second);
  const auto extents = options.extents.find(parameter.name);
  if (extents == options.extents.end()) {
    refuse(fmt::format("give parameter {} ({}) as --arg {}=FILE or --extents {}:AxB", parameter.name,
                       parameter.type, parameter.name, parameter.name));
  }
  if (parameter.type.find("xf32") == std::string::npos) {
    refuse(
        fmt::format("random values are f32 alone; give {} as --arg {}=FILE", parameter.name, parameter.name));
  }
  Tensor tensor(DType::F32, extents->second);
  if (parameter.access == "out") return tensor;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : tensor.as_mutable<float>()) value = uniform(random);
  return tensor;
}

Tensor scalar_argument(const KernelParameterInfo& parameter, const KernelOptions& options) {
  const auto found = options.arguments.find(parameter.name);
  if (found == options.arguments.end()) {
    refuse(fmt::format("give parameter {} ({}) as --arg {}=NUMBER", parameter.name, parameter.type,
                       parameter.name));
  }
  const std::string& text = found->second;
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  float real = 0;
  if (parameter.type == "i64") {
    if (const auto [at, error] = std::from_chars(text.data(), end, whole); error == std::errc() && at == end)
      return Tensor::from_integer(whole);
  } else if (parameter.type == "f32") {
    if (const auto [at, error] = std::from_chars(text.data(), end, real); error == std::errc() && at == end)
      return Tensor::from<float>(DType::F32, {}, std::span<const float>(&real, 1));
  }
  refuse(fmt::format("{} is no {}", text, parameter.type));
}

// The largest difference between two f32 tensors, or whether the bytes differ for any other dtype.
double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::F32) return a == b ? 0 : HUGE_VAL;
  double largest = 0;
  const auto x = a.as<float>(), y = b.as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    largest = std::isnan(difference)
                  ? HUGE_VAL
                  : std::max(largest, difference / std::max(1.0, std::abs(static_cast<double>(y[i]))));
  }
  return largest;
}

void run(const GlobalOptions& global, const KernelOptions& options, int& exit_status) {
  check_apart("--arg", options.arguments, "--extents", options.extents);
  const std::string source = read_source(options.file);
  const std::vector<KernelInfo> kernels = kernels_in(source, options);
  const KernelParameters& parameters = options.parameters;
  if (kernels.size() > 1 && options.name.empty())
    refuse(fmt::format("{} has {} kernels; choose one with --name", options.file, kernels.size()));
  const KernelInfo* kernel = &kernels[0];
  for (const KernelInfo& candidate : kernels) {
    if (candidate.name == options.name) kernel = &candidate;
  }
  if (!options.name.empty() && kernel->name != options.name)
    refuse(fmt::format("{} has no kernel {}", options.file, options.name));
  if (!options.listing.empty()) {
    fmt::print(
        "{}", kernel_listing(source, options.file, kernel->name, parameters, options.listing, global.target));
    return;
  }
  check_names(*kernel, options);
  if (!options.output_dir.empty()) make_folder(options.output_dir);
  std::vector<Tensor> generated, interpreted;
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const KernelParameterInfo& parameter = kernel->parameters[i];
    generated.push_back(parameter.access.empty()
                            ? scalar_argument(parameter, options)
                            : view_argument(parameter, options, options.seed * 1000 + i));
    interpreted.push_back(parameter.access == "in" || parameter.access.empty() ? generated.back()
                                                                               : generated.back().copy());
  }
  run_kernel(source, options.file, kernel->name, parameters, generated, KernelEngine::Generated,
             global.target);
  if (options.interpret)
    run_kernel(source, options.file, kernel->name, parameters, interpreted, KernelEngine::Interpreter,
               global.target);
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const KernelParameterInfo& parameter = kernel->parameters[i];
    if (parameter.access != "out" && parameter.access != "inout") continue;
    fmt::print("{}: {} {}", parameter.name, name(generated[i].dtype()), to_string(generated[i].extents()));
    if (options.interpret) {
      const double difference = largest_difference(generated[i], interpreted[i]);
      fmt::print("  largest difference from the interpreter: {:.3g}", difference);
      if (difference > 1e-4) exit_status = 1;
    }
    fmt::print("\n");
    if (!options.output_dir.empty())
      write_tensor(fmt::format("{}/{}.npy", options.output_dir, parameter.name), generated[i]);
  }
}

}  // namespace

void add_kernel(CLI::App& app, const GlobalOptions& global, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("kernel", "check or run kernels written as tile text (docs/tile-ir.md)");
  command->require_subcommand(1);
  auto options = std::make_shared<KernelOptions>();
  CLI::App* check_command = command->add_subcommand("check", "parse and verify; prints the normal form");
  CLI::App* run_command = command->add_subcommand("run", "compile and run one kernel");
  for (CLI::App* each : {check_command, run_command}) {
    add_value(*each, "file", options->file, parse_text, "tile text")->type_name("FILE")->required();
    add_named(*each, "--set", "NAME=NUMBER", SplitAt::First, options->parameters, parse_whole,
              "a meta parameter; default: its first tune choice");
  }
  add_value(*run_command, "--name", options->name, parse_text, "which kernel, if the file has several")
      ->type_name("NAME");
  add_named(*run_command, "--arg", "NAME=VALUE", SplitAt::First, options->arguments, parse_text,
            "a view from a .npy or .pb file, or a scalar");
  add_named(*run_command, "--extents", "NAME:AxB", SplitAt::Last, options->extents, parse_extents,
            "a view of f32: random, or zeros if it is out");
  add_value(*run_command, "--random-seed", options->seed, whole_from(0, INT64_MAX),
            "seed of random arguments")
      ->type_name("N");
  add_value(*run_command, "--output-dir", options->output_dir, parse_text,
            "folder for what the kernel writes, as .npy")
      ->type_name("FOLDER");
  run_command->footer("  kiln kernel run softmax.tile --extents x:64x1000 --extents y:64x1000 --interpret\n");
  run_command->add_flag("--interpret", options->interpret, "also run the interpreter and compare");
  run_command->add_option("--listing", options->listing, "print the LLVM IR or the assembly instead")
      ->check(CLI::IsMember({"llvm", "asm"}));
  check_command->callback([options] { check(*options); });
  run_command->callback([&global, options, &exit_status] { run(global, *options, exit_status); });
}

}  // namespace kiln::tools
