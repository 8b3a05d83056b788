#include <charconv>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <kiln/tensor_file.h>

#include "tools/command.h"

namespace kiln::tools {
namespace {

[[noreturn]] void usage(std::string message) {
  throw Error(ErrorKind::Caller, ErrorCode::InvalidArgument, std::move(message));
}

std::pair<std::string, std::string> split_at(const std::string& text, char separator, const char* form) {
  const std::size_t at = text.rfind(separator);
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage(fmt::format("{} is not of the form {}", text, form));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::int64_t parse_extent(std::string_view text, const std::string& whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    usage(fmt::format("{}: {} is no extent, expected a whole number of 0 or more", whole, text));
  }
  return value;
}

std::vector<std::int64_t> parse_shape(const std::string& text, const std::string& whole) {
  std::vector<std::int64_t> extents;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    extents.push_back(parse_extent(std::string_view(text).substr(at, end - at), whole));
    at = end + 1;
  }
  return extents;
}

const ValueInfo& find_input(const Session& session, const std::string& name) {
  std::string known;
  for (const ValueInfo& input : session.inputs()) {
    if (input.name == name) return input;
    known += (known.empty() ? "" : ", ") + input.name;
  }
  usage(fmt::format("the model has no input {}; its inputs are: {}", name, known));
}

template <typename T, typename Draw>
void fill(Tensor& tensor, const Draw& draw) {
  for (T& element : tensor.as_mutable<T>()) element = static_cast<T>(draw());
}

// f16 and bf16 patterns of small exact values: multiples of 1/8 in [-1, 1).
std::uint16_t small_half(DType dtype, int eighths) {
  const float value = static_cast<float>(eighths) / 8;
  std::uint32_t bits;
  static_assert(sizeof bits == sizeof value);
  std::memcpy(&bits, &value, sizeof bits);
  if (dtype == DType::BF16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

// Integers by what the name says: attention masks are 1, token types 0, anything else an id in [0, 100).
Tensor random_tensor(const ValueInfo& info, std::vector<std::int64_t> extents, std::uint64_t seed) {
  Tensor tensor(info.dtype, std::move(extents));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  const bool mask = info.name.find("mask") != std::string::npos,
             type = info.name.find("type") != std::string::npos;
  std::uniform_int_distribution<int> whole(mask ? 1 : 0, mask ? 1 : type ? 0 : 99), eighths(-8, 7);
  switch (info.dtype) {
    case DType::F32:
      fill<float>(tensor, [&] { return real(random); });
      break;
    case DType::F64:
      fill<double>(tensor, [&] { return real(random); });
      break;
    case DType::F16:
    case DType::BF16:
      fill<std::uint16_t>(tensor, [&] { return small_half(info.dtype, eighths(random)); });
      break;
    case DType::I1:
      fill<std::uint8_t>(tensor, [] { return 1; });
      break;
    case DType::I8:
    case DType::U8:
      fill<std::uint8_t>(tensor, [&] { return whole(random); });
      break;
    case DType::I16:
    case DType::U16:
      fill<std::uint16_t>(tensor, [&] { return whole(random); });
      break;
    case DType::I32:
    case DType::U32:
      fill<std::uint32_t>(tensor, [&] { return whole(random); });
      break;
    case DType::I64:
    case DType::U64:
      fill<std::uint64_t>(tensor, [&] { return whole(random); });
      break;
    default:
      usage(fmt::format("no random values of {} for input {}; give a file with --input", name(info.dtype),
                        info.name));
  }
  return tensor;
}

std::map<std::string, Datum> read_files(const Session& session, const InputOptions& options) {
  std::map<std::string, Datum> files;
  for (const std::string& option : options.files) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos) usage(fmt::format("{} is not of the form NAME=FILE", option));
    const std::string name = option.substr(0, equals);
    const ValueInfo& input = find_input(session, name);
    if (!files.emplace(name, read_datum(option.substr(equals + 1), input.container, input.dtype)).second)
      usage(fmt::format("input {} is given twice", name));
  }
  return files;
}

// What the command line fixes: symbols, and whole shapes of inputs.
struct Bindings {
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, std::vector<std::int64_t>> shapes;
};

void check_symbol(const Session& session, const std::string& symbol) {
  std::string known;
  for (const ValueInfo& input : session.inputs()) {
    for (const DimInfo& dim : input.shape.value_or(std::vector<DimInfo>{})) {
      if (dim.extent >= 0 || dim.symbol.empty()) continue;
      if (dim.symbol == symbol) return;
      if (known.find(dim.symbol) == std::string::npos) known += (known.empty() ? "" : ", ") + dim.symbol;
    }
  }
  usage(fmt::format("the model has no dimension {}; its open dimensions are: {}", symbol,
                    known.empty() ? "none" : known));
}

// A shape binds the symbols in it, for the sake of the other inputs.
void bind_symbols(const ValueInfo& input, const std::vector<std::int64_t>& extents, Bindings& bindings) {
  if (!input.shape || input.shape->size() != extents.size()) return;  // the Session says what is wrong
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const DimInfo& dim = (*input.shape)[axis];
    if (dim.extent >= 0 || dim.symbol.empty()) continue;
    const auto [bound, is_new] = bindings.dims.emplace(dim.symbol, extents[axis]);
    if (!is_new && bound->second != extents[axis])
      usage(fmt::format("dimension {} is {} elsewhere, but {} in input {}", dim.symbol, bound->second,
                        extents[axis], input.name));
  }
}

Bindings bind(const Session& session, const InputOptions& options,
              const std::map<std::string, Datum>& files) {
  Bindings bindings;
  for (const std::string& option : options.dims) {
    const auto [name, extent] = split_at(option, '=', "NAME=EXTENT");
    check_symbol(session, name);
    bindings.dims[name] = parse_extent(extent, option);
  }
  for (const std::string& option : options.shapes) {
    const auto [name, shape] = split_at(option, ':', "INPUT:AxBxC");
    bindings.shapes[name] = parse_shape(shape, option);
    bind_symbols(find_input(session, name), bindings.shapes[name], bindings);
  }
  for (const auto& [name, datum] : files) {
    if (!datum.is_tensor()) continue;
    bindings.shapes[name] = datum.tensor().extents();
    bind_symbols(find_input(session, name), datum.tensor().extents(), bindings);
  }
  return bindings;
}

std::vector<std::int64_t> extents_of(const ValueInfo& input, const Bindings& bindings) {
  if (const auto found = bindings.shapes.find(input.name); found != bindings.shapes.end())
    return found->second;
  if (!input.shape)
    usage(fmt::format("input {} has no known rank; give --shape {}:AxBxC", input.name, input.name));
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < input.shape->size(); ++axis) {
    const DimInfo& dim = (*input.shape)[axis];
    const auto found = bindings.dims.find(dim.symbol);
    if (dim.extent < 0 && found == bindings.dims.end()) {
      usage(fmt::format("dimension {} of input {} is open; give {}--shape {}:AxBxC", axis, input.name,
                        dim.symbol.empty() ? "" : fmt::format("--dim {}=N or ", dim.symbol), input.name));
    }
    extents.push_back(dim.extent >= 0 ? dim.extent : found->second);
  }
  return extents;
}

}  // namespace

Options GlobalOptions::session_options() const {
  Options options;
  options.target = target;
  options.kernels = kernels == "generated"   ? KernelChoice::Generated
                    : kernels == "reference" ? KernelChoice::Reference
                                             : KernelChoice::Reference64;
  options.threads = threads;
  options.cache = cache;
  if (verbose) options.log = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  return options;
}

void InputOptions::add_to(CLI::App& command, bool with_files) {
  command.add_option("--dim", dims, "an open dimension of the model, such as batch=8")
      ->type_name("SYMBOL=N")
      ->allow_extra_args(false);
  command.add_option("--shape", shapes, "the shape of one input, such as image:8x3x224x224")
      ->type_name("INPUT:AxBxC")
      ->allow_extra_args(false);
  if (!with_files) return;
  command.add_option("--input", files, "an input from a .npy or .pb file; it binds dimensions too")
      ->type_name("INPUT=FILE")
      ->allow_extra_args(false);
  command.add_option("--random-seed", seed, "seed of the inputs that no file gives")->capture_default_str();
}

std::vector<std::vector<std::int64_t>> input_extents(const Session& session, const InputOptions& options) {
  const Bindings bindings = bind(session, options, {});
  std::vector<std::vector<std::int64_t>> result;
  for (const ValueInfo& input : session.inputs()) result.push_back(extents_of(input, bindings));
  return result;
}

std::vector<NamedDatum> make_inputs(const Session& session, const InputOptions& options) {
  const std::map<std::string, Datum> files = read_files(session, options);
  const Bindings bindings = bind(session, options, files);
  std::vector<NamedDatum> inputs;
  for (std::size_t i = 0; i < session.inputs().size(); ++i) {
    const ValueInfo& input = session.inputs()[i];
    if (const auto file = files.find(input.name); file != files.end()) {
      inputs.push_back({input.name, file->second});
    } else if (input.container == Container::Optional || input.container == Container::OptionalSequence) {
      inputs.push_back({input.name, Datum()});
    } else if (input.container != Container::Tensor) {
      usage(fmt::format("input {} is a {}; give a .pb file with --input", input.name, name(input.container)));
    } else {
      inputs.push_back(
          {input.name, random_tensor(input, extents_of(input, bindings), options.seed * 1000 + i)});
    }
  }
  return inputs;
}

}  // namespace kiln::tools
