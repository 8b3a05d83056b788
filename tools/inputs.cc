#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kiln/tensor_file.h>

#include "tools/arguments.h"
#include "tools/command.h"

namespace kiln::tools {
namespace {

const ValueInfo& find_input(const Session& session, const std::string& name) {
  std::string known;
  for (const ValueInfo& input : session.inputs()) {
    if (input.name == name) return input;
    known += (known.empty() ? "" : ", ") + input.name;
  }
  const std::size_t defaults = session.defaults().size();
  refuse(fmt::format("the model has no input {}; its inputs are: {}{}", name, known,
                     defaults == 0 ? "" : fmt::format("; {} more have a default value", defaults)));
}

// What a file may give: also an input with a default value.
const ValueInfo& find_given(const Session& session, const std::string& name) {
  const auto& defaults = session.defaults();
  const auto found = std::ranges::find(defaults, name, &ValueInfo::name);
  return found == defaults.end() ? find_input(session, name) : *found;
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
      refuse(fmt::format("no random values of {} for input {}; give a file with --input", name(info.dtype),
                         info.name));
  }
  return tensor;
}

std::map<std::string, Datum> read_files(const Session& session, const InputOptions& options) {
  std::map<std::string, Datum> data;
  for (const auto& [name, file] : options.files) {
    const ValueInfo& input = find_given(session, name);
    data.emplace(name, read_datum(file, input.container, input.dtype).datum);
  }
  return data;
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
  refuse(fmt::format("the model has no dimension {}; its open dimensions are: {}", symbol,
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
      refuse(fmt::format("dimension {} is {} elsewhere, but {} in input {}", dim.symbol, bound->second,
                         extents[axis], input.name));
  }
}

Bindings bind(const Session& session, const InputOptions& options,
              const std::map<std::string, Datum>& files) {
  Bindings bindings{.dims = options.dims, .shapes = options.shapes};
  for (const auto& [name, extent] : options.dims) check_symbol(session, name);
  for (const auto& [name, shape] : options.shapes) {
    const ValueInfo& input = find_input(session, name);
    if (input.container != Container::Tensor)
      refuse(fmt::format("input {} is a {}, which has no shape", name, kiln::name(input.container)));
    bind_symbols(input, shape, bindings);
  }
  for (const auto& [name, datum] : files) {
    if (!datum.is_tensor()) continue;
    bindings.shapes[name] = datum.tensor().extents();
    bind_symbols(find_given(session, name), datum.tensor().extents(), bindings);
  }
  return bindings;
}

std::vector<std::int64_t> extents_of(const ValueInfo& input, const Bindings& bindings) {
  if (const auto found = bindings.shapes.find(input.name); found != bindings.shapes.end())
    return found->second;
  if (!input.shape)
    refuse(fmt::format("input {} has no known rank; give --shape {}:AxBxC", input.name, input.name));
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < input.shape->size(); ++axis) {
    const DimInfo& dim = (*input.shape)[axis];
    const auto found = bindings.dims.find(dim.symbol);
    if (dim.extent < 0 && found == bindings.dims.end()) {
      refuse(fmt::format("dimension {} of input {} is open; give {}--shape {}:AxBxC", axis, input.name,
                         dim.symbol.empty() ? "" : fmt::format("--dim {}=N or ", dim.symbol), input.name));
    }
    extents.push_back(dim.extent >= 0 ? dim.extent : found->second);
  }
  return extents;
}

}  // namespace

void InputOptions::add_to(CLI::App& command, bool with_files) {
  add_named(command, "--dim", "SYMBOL=N", SplitAt::Last, dims, parse_extent,
            "an open dimension of the model, such as batch=8");
  add_named(command, "--shape", "INPUT:AxBxC", SplitAt::Last, shapes, parse_extents,
            "the shape of one input, such as image:8x3x224x224");
  if (!with_files) return;
  add_named(command, "--input", "INPUT=FILE", SplitAt::First, files, parse_text,
            "an input from a .npy or .pb file, one with a default value too; it binds dimensions");
  add_value(command, "--random-seed", seed, whole_from(0, INT64_MAX), "seed of the inputs that no file gives")
      ->type_name("N");
}

void InputOptions::check() const { check_apart("--shape", shapes, "--input", files); }

void check_bindings(const Session& session, const InputOptions& options) { bind(session, options, {}); }

std::vector<std::vector<std::int64_t>> input_extents(const Session& session, const InputOptions& options) {
  const Bindings bindings = bind(session, options, {});
  std::vector<std::vector<std::int64_t>> result;
  for (const ValueInfo& input : session.inputs()) {
    result.push_back(input.container == Container::Tensor ? extents_of(input, bindings)
                                                          : std::vector<std::int64_t>());
  }
  return result;
}

ModelInputs make_inputs(const Session& session, const InputOptions& options) {
  const std::map<std::string, Datum> files = read_files(session, options);
  const Bindings bindings = bind(session, options, files);
  ModelInputs inputs;
  for (const ValueInfo& input : session.defaults()) {
    if (const auto file = files.find(input.name); file != files.end())
      inputs.data.push_back({input.name, file->second});
  }
  for (std::size_t i = 0; i < session.inputs().size(); ++i) {
    const ValueInfo& input = session.inputs()[i];
    if (const auto file = files.find(input.name); file != files.end()) {
      inputs.data.push_back({input.name, file->second});
    } else if (input.container == Container::Optional || input.container == Container::OptionalSequence) {
      inputs.data.push_back({input.name, Datum()});
    } else if (input.container != Container::Tensor) {
      refuse(
          fmt::format("input {} is a {}; give a .pb file with --input", input.name, name(input.container)));
    } else {
      inputs.random.push_back(input.name);
      inputs.data.push_back(
          {input.name, random_tensor(input, extents_of(input, bindings), options.seed * 1000 + i)});
    }
  }
  return inputs;
}

namespace {

// True if inputs of these extents are wrong whatever they hold.
bool extents_are_wrong(const Session& session, const ModelInputs& inputs) {
  std::vector<std::vector<std::int64_t>> extents;
  for (const ValueInfo& input : session.inputs()) {
    const auto given = std::ranges::find(inputs.data, input.name, &NamedDatum::name);
    const bool tensor = given != inputs.data.end() && given->datum.is_tensor();
    extents.push_back(tensor ? given->datum.tensor().extents() : std::vector<std::int64_t>());
  }
  try {
    (void)session.output_extents(extents);
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::vector<Datum> run_once(const Session& session, const ModelInputs& inputs) {
  try {
    return session.run(std::span<const NamedDatum>(inputs.data));
  } catch (Error& error) {
    if (error.kind() == ErrorKind::Caller && !inputs.random.empty() && !extents_are_wrong(session, inputs)) {
      error.with("hint", fmt::format("kiln made random values for {}; give your own with --input",
                                     fmt::join(inputs.random, ", ")));
    }
    throw;
  }
}

}  // namespace kiln::tools
