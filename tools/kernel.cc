#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <kiln/kernel.h>
#include <kiln/tensor_file.h>

#include "tools/command.h"

namespace kiln::tools {
namespace {

constexpr std::int64_t kMaxSourceBytes = 16 << 20;

struct KernelOptions {
  std::string file, name, listing;
  std::vector<std::string> parameters, arguments, extents;
  std::string output_dir;
  std::uint64_t seed = 1;
  bool interpret = false;
};

[[noreturn]] void usage(std::string message) {
  throw Error(ErrorKind::Caller, ErrorCode::InvalidArgument, std::move(message));
}

std::string read_source(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw Error(ErrorKind::Environment, ErrorCode::Io, fmt::format("cannot open {}", path));
  if (file.tellg() > kMaxSourceBytes) usage(fmt::format("{} is too large for tile text", path));
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

KernelParameters parse_parameters(const KernelOptions& options) {
  KernelParameters parameters;
  for (const std::string& option : options.parameters) {
    const std::size_t equals = option.find('=');
    std::int64_t value = 0;
    const char* end = option.data() + option.size();
    if (equals == std::string::npos || std::from_chars(option.data() + equals + 1, end, value).ptr != end) {
      usage(fmt::format("{} is not of the form NAME=NUMBER", option));
    }
    parameters[option.substr(0, equals)] = value;
  }
  return parameters;
}

void check(const KernelOptions& options) {
  for (const KernelInfo& kernel :
       check_kernels(read_source(options.file), options.file, parse_parameters(options))) {
    fmt::print("{}", kernel.text);
  }
}

// Every --arg and --extents must name a parameter of the kernel.
void check_names(const KernelInfo& kernel, const KernelOptions& options) {
  const auto check_name = [&](const std::string& option, char separator) {
    const std::string given = option.substr(0, option.find(separator));
    std::string known;
    for (const KernelParameterInfo& parameter : kernel.parameters) {
      if (parameter.name == given) return;
      known += (known.empty() ? "" : ", ") + parameter.name;
    }
    usage(fmt::format("kernel {} has no parameter {}; its parameters are: {}", kernel.name, given, known));
  };
  for (const std::string& option : options.arguments) check_name(option, '=');
  for (const std::string& option : options.extents) check_name(option, ':');
}

// An argument of a view parameter from --arg NAME=FILE, or random with extents from --extents NAME:AxB.
Tensor view_argument(const KernelParameterInfo& parameter, const KernelOptions& options, std::uint64_t seed) {
  for (const std::string& option : options.arguments) {
    if (option.starts_with(parameter.name + "="))
      return read_tensor(option.substr(parameter.name.size() + 1));
  }
  for (const std::string& option : options.extents) {
    if (!option.starts_with(parameter.name + ":")) continue;
    std::vector<std::int64_t> extents;
    std::istringstream text(option.substr(parameter.name.size() + 1));
    for (std::string extent; std::getline(text, extent, 'x');) {
      std::int64_t value = -1;
      if (std::from_chars(extent.data(), extent.data() + extent.size(), value).ptr !=
              extent.data() + extent.size() ||
          value < 0) {
        usage(fmt::format("{}: {} is no extent", option, extent));
      }
      extents.push_back(value);
    }
    if (parameter.type.find("xf32") == std::string::npos)
      usage(fmt::format("random values are f32 alone; give {} as --arg {}=FILE", parameter.name,
                        parameter.name));
    Tensor tensor(DType::F32, extents);
    if (parameter.access == "out") return tensor;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& value : tensor.as_mutable<float>()) value = uniform(random);
    return tensor;
  }
  usage(fmt::format("give parameter {} ({}) as --arg {}=FILE or --extents {}:AxB", parameter.name,
                    parameter.type, parameter.name, parameter.name));
}

Tensor scalar_argument(const KernelParameterInfo& parameter, const KernelOptions& options) {
  for (const std::string& option : options.arguments) {
    if (!option.starts_with(parameter.name + "=")) continue;
    const std::string text = option.substr(parameter.name.size() + 1);
    if (parameter.type == "i64") {
      std::int64_t value = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size())
        return Tensor::from_integer(value);
    } else if (parameter.type == "f32") {
      float value = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size()) {
        return Tensor::from<float>(DType::F32, {}, std::span<const float>(&value, 1));
      }
    }
    usage(fmt::format("{} is no {}", text, parameter.type));
  }
  usage(fmt::format("give parameter {} ({}) as --arg {}=NUMBER", parameter.name, parameter.type,
                    parameter.name));
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.extents());
  std::copy_n(tensor.data(), tensor.byte_size(), copy.mutable_data());
  return copy;
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
  const std::string source = read_source(options.file);
  const KernelParameters parameters = parse_parameters(options);
  const std::vector<KernelInfo> kernels = check_kernels(source, options.file, parameters);
  if (kernels.empty()) usage(fmt::format("{} has no kernel", options.file));
  if (kernels.size() > 1 && options.name.empty())
    usage(fmt::format("{} has {} kernels; choose one with --name", options.file, kernels.size()));
  const KernelInfo* kernel = &kernels[0];
  for (const KernelInfo& candidate : kernels) {
    if (candidate.name == options.name) kernel = &candidate;
  }
  if (!options.name.empty() && kernel->name != options.name)
    usage(fmt::format("{} has no kernel {}", options.file, options.name));
  if (!options.listing.empty()) {
    fmt::print(
        "{}", kernel_listing(source, options.file, kernel->name, parameters, options.listing, global.target));
    return;
  }
  check_names(*kernel, options);
  std::vector<Tensor> generated, interpreted;
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const KernelParameterInfo& parameter = kernel->parameters[i];
    generated.push_back(parameter.access.empty()
                            ? scalar_argument(parameter, options)
                            : view_argument(parameter, options, options.seed * 1000 + i));
    interpreted.push_back(parameter.access == "in" || parameter.access.empty() ? generated.back()
                                                                               : copy_of(generated.back()));
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
    each->add_option("file", options->file, "tile text")->type_name("FILE")->required();
    each->add_option("--set", options->parameters, "a meta parameter; default: its first tune choice")
        ->type_name("NAME=NUMBER")
        ->allow_extra_args(false);
  }
  run_command->add_option("--name", options->name, "which kernel, if the file has several");
  run_command->add_option("--arg", options->arguments, "a view from a .npy or .pb file, or a scalar")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run_command->add_option("--extents", options->extents, "a view of f32: random, or zeros if it is out")
      ->type_name("NAME:AxB")
      ->allow_extra_args(false);
  run_command->add_option("--random-seed", options->seed, "seed of random arguments")->capture_default_str();
  run_command
      ->add_option("--output-dir", options->output_dir, "existing folder for what the kernel writes, as .npy")
      ->type_name("FOLDER");
  run_command->footer("  kiln kernel run softmax.tile --extents x:64x1000 --extents y:64x1000 --interpret\n");
  run_command->add_flag("--interpret", options->interpret, "also run the interpreter and compare");
  run_command->add_option("--listing", options->listing, "print the LLVM IR or the assembly instead")
      ->check(CLI::IsMember({"llvm", "asm"}));
  check_command->callback([options] { check(*options); });
  run_command->callback([&global, options, &exit_status] { run(global, *options, exit_status); });
}

}  // namespace kiln::tools
