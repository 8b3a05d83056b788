#include "tests/support/exam.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/graph/contract.h"
#include "ir/templates/row_program.h"
#include "ir/templates/window_geometry.h"
#include "jit/compile.h"
#include "kernels_ref/reference.h"
#include "runtime/launch.h"
#include "runtime/model.h"
#include "runtime/operands.h"

namespace kiln::testing {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using templates::Program;
using templates::ProgramValue;
using templates::Template;

constexpr std::byte kUntouched{0x7f}, kNaN{0xff};
constexpr std::size_t kGuardBytes = 256;

Extents extents_of(const Shape& shape, const graph::Bindings& bindings) {
  Extents extents;
  for (const Dim& dim : shape) extents.push_back(dim.evaluate(bindings));
  return extents;
}

// ---- numbers

std::optional<double> special_number(std::mt19937_64& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNumbers[] = {kInfinity, -kInfinity, NAN, 0.0, -0.0, 1e-7, -1e-40, 1.0, 0.5};
  if (random() % 8 != 0) return std::nullopt;
  return kNumbers[random() % std::size(kNumbers)];
}

template <typename T>
void fill_integers(Tensor& tensor, std::mt19937_64& random, bool special) {
  // Not 0: it may divide.
  for (T& element : tensor.as_mutable<T>()) {
    const auto magnitude = static_cast<T>(random() % 50 + 1);
    element = std::is_signed_v<T> && random() % 2 == 0 ? static_cast<T>(-magnitude) : magnitude;
    if (special && random() % 8 == 0)
      element = random() % 2 == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    if (element == 0) element = 1;
  }
}

template <typename T>
void fill_floats(Tensor& tensor, std::mt19937_64& random, bool special) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (T& element : tensor.as_mutable<T>()) {
    const double number = uniform(random);
    const auto other = special ? special_number(random) : std::nullopt;
    element = static_cast<T>(other ? *other : number);
  }
}

void fill(Tensor& tensor, std::mt19937_64& random, bool special) {
  switch (tensor.dtype()) {
    case DType::I1:
      for (std::uint8_t& element : tensor.as_mutable<std::uint8_t>()) element = random() % 2;
      return;
    case DType::I8:
      return fill_integers<std::int8_t>(tensor, random, special);
    case DType::I16:
      return fill_integers<std::int16_t>(tensor, random, special);
    case DType::I32:
      return fill_integers<std::int32_t>(tensor, random, special);
    case DType::I64:
      return fill_integers<std::int64_t>(tensor, random, special);
    case DType::U8:
    case DType::F8E4M3FN:
    case DType::F8E5M2:
      return fill_integers<std::uint8_t>(tensor, random, special);
    case DType::U16:
      return fill_integers<std::uint16_t>(tensor, random, special);
    case DType::U32:
      return fill_integers<std::uint32_t>(tensor, random, special);
    case DType::U64:
      return fill_integers<std::uint64_t>(tensor, random, special);
    case DType::F16:
      return fill_floats<Float16>(tensor, random, special);
    case DType::BF16:
      return fill_floats<BFloat16>(tensor, random, special);
    case DType::F32:
      return fill_floats<float>(tensor, random, special);
    case DType::F64:
      return fill_floats<double>(tensor, random, special);
    default:
      throw_bug("no sample numbers of {}", name(tensor.dtype()));
  }
}

void fill_indices(Tensor& tensor, std::mt19937_64& random, std::int64_t extent) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t index =
        static_cast<std::int64_t>(random() %
                                  static_cast<std::uint64_t>(2 * std::max<std::int64_t>(extent, 1))) -
        extent;
    if (tensor.dtype() == DType::I64) {
      tensor.as_mutable<std::int64_t>()[at] = index;
    } else {
      tensor.as_mutable<std::int32_t>()[at] = static_cast<std::int32_t>(index);
    }
  }
}

// ---- memory

// A buffer that holds a Value as its Layout says, with a guard round it.
class Memory {
 public:
  Memory(std::int64_t element_bytes, Extents extents, std::vector<std::int64_t> strides, std::byte pattern)
      : element_(static_cast<std::size_t>(element_bytes)),
        extents_(std::move(extents)),
        strides_(std::move(strides)) {
    std::int64_t low = 0, high = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      const std::int64_t reach = std::max<std::int64_t>(extents_[i] - 1, 0) * strides_[i];
      low += std::min<std::int64_t>(reach, 0);
      high += std::max<std::int64_t>(reach, 0);
    }
    origin_ = kGuardBytes + static_cast<std::size_t>(-low) * element_;
    bytes_.assign(origin_ + static_cast<std::size_t>(high + 1) * element_ + kGuardBytes, pattern);
  }

  std::byte* origin() { return bytes_.data() + origin_; }

  void put(const Tensor& tensor) {
    for_each(
        [&](std::size_t flat, std::byte* at) { std::memcpy(at, tensor.data() + flat * element_, element_); });
  }

  // Takes the elements out, leaving the memory as it was.
  void take(Tensor& tensor) {
    for_each([&](std::size_t flat, std::byte* at) {
      std::memcpy(tensor.mutable_data() + flat * element_, at, element_);
    });
    for_each([&](std::size_t, std::byte* at) { std::fill_n(at, element_, kUntouched); });
  }

  bool is_untouched() const {
    return std::all_of(bytes_.begin(), bytes_.end(), [](std::byte byte) { return byte == kUntouched; });
  }

 private:
  template <typename Visit>
  void for_each(const Visit& visit) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_) count *= extent;
    for (std::int64_t flat = 0; flat < count; ++flat) {
      std::int64_t rest = flat, offset = 0;
      for (std::size_t i = extents_.size(); i-- > 0; rest /= extents_[i])
        offset += rest % extents_[i] * strides_[i];
      visit(static_cast<std::size_t>(flat), origin() + offset * static_cast<std::int64_t>(element_));
    }
  }

  std::size_t element_;
  Extents extents_;
  std::vector<std::int64_t> strides_;
  std::size_t origin_ = 0;
  std::vector<std::byte> bytes_;
};

// ---- comparing

double element(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  switch (tensor.dtype()) {
    case DType::F16:
      return static_cast<double>(tensor.as<Float16>()[at]);
    case DType::BF16:
      return static_cast<double>(tensor.as<BFloat16>()[at]);
    case DType::F32:
      return static_cast<double>(tensor.as<float>()[at]);
    case DType::F64:
      return tensor.as<double>()[at];
    default:
      throw_bug("{} is compared by bits", name(tensor.dtype()));
  }
}

// Half the distance from 1 to the next number.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    case DType::F32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// How many terms the longest sum of the root has.
double accumulation_length(const Problem& problem, const graph::Bindings& bindings) {
  const Graph& graph = problem.graph;
  const graph::Node& root = graph.node(problem.root);
  const auto extents = [&](std::size_t operand) {
    return extents_of(*graph.value(root.inputs[operand]).shape, bindings);
  };
  double length = 1;
  switch (contract(root.op).fusion) {
    case graph::FusionClass::Dot: {
      if (has(root, "kernel_shape")) {
        const Extents weights = extents(1);
        // Per group, the channels of the input.
        const bool transposed = root.op == graph::OpKind::ConvTranspose;
        length = static_cast<double>(transposed ? weights[0] / integer(root, "group") : weights[1]);
        for (std::size_t i = 2; i < weights.size(); ++i) length *= static_cast<double>(weights[i]);
      } else {
        const Extents a = extents(0);
        length = static_cast<double>(*std::max_element(a.end() - 2, a.end()));
      }
      break;
    }
    case graph::FusionClass::Rows: {
      const auto space = templates::row_space(problem);
      if (!space) break;
      for (const int axis : space->reduced)
        length *= static_cast<double>(space->extents[static_cast<std::size_t>(axis)].evaluate(bindings));
      break;
    }
    case graph::FusionClass::Pool:
      length = static_cast<double>(templates::window_geometry(graph, root).taps());
      break;
    default:
      break;
  }
  return std::max(length, 1.0);
}

std::string compare(const Tensor& got, const Tensor& want, double accumulated) {
  if (got.dtype() != want.dtype())
    return fmt::format("dtype {} instead of {}", name(got.dtype()), name(want.dtype()));
  if (got.extents() != want.extents())
    return fmt::format("extents {} instead of {}", to_string(got.extents()), to_string(want.extents()));
  const DType dtype = want.dtype();
  if (!is_float(dtype) || bits(dtype) < 16) {
    const auto width = static_cast<std::size_t>(bits(dtype) / 8);
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * width;
      if (std::memcmp(got.data() + at, want.data() + at, width) == 0) continue;
      std::int64_t g = 0, w = 0;
      std::memcpy(&g, got.data() + at, width);
      std::memcpy(&w, want.data() + at, width);
      return fmt::format("element {} has bits {:x} instead of {:x}", i, g, w);
    }
    return {};
  }
  const double compute = unit_roundoff(dtype == DType::F64 ? DType::F64 : DType::F32);
  const double allowed = 8 * unit_roundoff(dtype) + 2 * (8 + accumulated) * compute;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!(std::abs(g - w) <= allowed * std::max(1.0, std::abs(w))))
      return fmt::format("element {} is {} instead of {}, allowed {:.3g}", i, g, w, allowed);
  }
  return {};
}

// ---- running

class Examination {
 public:
  Examination(const Template& candidate, const Template::Sample& sample, const ExamOptions& options)
      : template_(candidate), sample_(sample), problem_(sample.problem), options_(options) {}

  std::string run() {
    if (const auto refusal = template_.refuses(problem_, options_.target)) return "refused: " + *refusal;
    for (const templates::VariantChoice& choice : template_.variants(problem_, options_.target)) {
      const auto where = [&](const std::string& what) {
        return fmt::format("{} of {}, variant {}: {}", sample_.label, template_.name, choice.name, what);
      };
      try {
        program_ = template_.build(problem_, choice.parameters, options_.target);
        if (options_.sabotage) options_.sabotage(program_);
        if (std::string failure = compile(); !failure.empty()) return where(failure);
        for (const graph::Bindings& bindings : sample_.sizes) {
          if (choice.guard) {
            const std::int64_t size = choice.guard->dim.evaluate(bindings);
            if (size < choice.guard->low || size > choice.guard->high) continue;
          }
          for (const bool special : {false, true}) {
            if (special && !sample_.special_numbers) continue;
            const std::string wrong = run_once(bindings, special);
            if (!wrong.empty())
              return where(fmt::format("at [{}]{}: {}", fmt::join(bindings, ", "),
                                       special ? " with special numbers" : "", wrong));
          }
        }
      } catch (const Error& error) {
        return where(error.what());
      }
    }
    return {};
  }

 private:
  std::string compile() {
    kernels_.clear();
    for (const auto* launches : {&program_.kernels, &program_.prepare}) {
      for (const templates::KernelLaunch& launch : *launches) {
        const auto artifact = jit::compile(launch.kernel, launch.schedule, options_.target, "kernel");
        if (!artifact) return artifact.error().what();
        const auto loaded = jit::load(*artifact);
        if (!loaded) return loaded.error().what();
        kernels_.push_back(*loaded);
      }
    }
    return {};
  }

  std::vector<Tensor> make_inputs(const graph::Bindings& bindings, bool special) {
    std::mt19937_64 random(special ? 2 : 1);
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < problem_.graph.inputs.size(); ++i) {
      const graph::Value& value = problem_.graph.value(problem_.graph.inputs[i]);
      if (value.constant) {
        tensors.push_back(*value.constant);
        continue;
      }
      Tensor tensor(value.dtype, extents_of(*value.shape, bindings));
      const auto index = std::find_if(sample_.index_inputs.begin(), sample_.index_inputs.end(),
                                      [&](const auto& entry) { return entry.input == i; });
      if (index != sample_.index_inputs.end()) {
        fill_indices(tensor, random, tensors[index->data].extents()[index->axis]);
      } else {
        // Constant weights are finite: a border of zeros need not meet an infinity.
        fill(tensor, random, special && !problem_.input_is_constant[i]);
      }
      // An axis that repeats shows its first element everywhere.
      tensors.push_back(value.layout->strides.empty() || value.layout->strides[0] != Dim(0)
                            ? std::move(tensor)
                            : with_first_repeated(std::move(tensor)));
    }
    return tensors;
  }

  static Tensor with_first_repeated(Tensor tensor) {
    if (tensor.extents()[0] < 2) return tensor;
    const std::int64_t bytes = tensor.byte_size() / tensor.extents()[0];
    for (std::int64_t i = 1; i < tensor.extents()[0]; ++i)
      std::memcpy(tensor.mutable_data() + i * bytes, tensor.data(), static_cast<std::size_t>(bytes));
    return tensor;
  }

  // The Problem's graph with what these sizes say of Values that are known by Dims.
  Graph reference_graph(const graph::Bindings& bindings) const {
    Graph graph = problem_.graph;
    for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
      graph::Value& value = graph.value(ValueId{i});
      if (value.producer || value.constant || !value.elements) continue;
      if (std::find(graph.inputs.begin(), graph.inputs.end(), ValueId{i}) == graph.inputs.end())
        value.constant = runtime::elements_tensor(value, bindings);
    }
    return graph;
  }

  std::string run_once(const graph::Bindings& bindings, bool special) {
    const std::vector<Tensor> inputs = make_inputs(bindings, special);
    const std::vector<Tensor> want = reference::evaluate(reference_graph(bindings), inputs);
    memories_.clear();
    for (std::size_t v = 0; v < program_.values.size(); ++v) add_memory(v, bindings, inputs);
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      // Prepare kernels, which come last, run first.
      const std::size_t k = (i + program_.kernels.size()) % kernels_.size();
      const templates::KernelLaunch& next =
          k < program_.kernels.size() ? program_.kernels[k] : program_.prepare[k - program_.kernels.size()];
      if (std::string wrong = wrong_assumption(next, bindings); !wrong.empty()) return wrong;
      launch(next, kernels_[k], bindings);
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::size_t v = inputs.size() + i;
      Tensor got(want[i].dtype(), want[i].extents());
      memories_[v]->take(got);
      std::string wrong = compare(got, want[i], accumulation_length(problem_, bindings));
      if (wrong.empty() && !memories_[v]->is_untouched()) wrong = "memory beside it was written";
      if (!wrong.empty()) return fmt::format("output {}: {}", i, wrong);
    }
    return {};
  }

  // Extents that the Kernel takes for equal must be what it is given.
  static std::string wrong_assumption(const templates::KernelLaunch& launch,
                                      const graph::Bindings& bindings) {
    try {
      tile::require_equal_extents(launch.kernel, [&](std::size_t parameter, int axis) {
        const auto& view = std::get<templates::ViewBinding>(launch.arguments[parameter]);
        return view.extents[static_cast<std::size_t>(axis)].evaluate(bindings);
      });
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  void add_memory(std::size_t v, const graph::Bindings& bindings, const std::vector<Tensor>& inputs) {
    const ProgramValue& value = program_.values[v];
    const bool is_input = value.kind == ProgramValue::Kind::Input;
    if (!is_input && value.kind != ProgramValue::Kind::Output) {
      memories_.push_back(std::make_unique<Memory>(bits(value.dtype) / 8,
                                                   Extents{value.elements.evaluate(bindings)},
                                                   std::vector<std::int64_t>{1}, kNaN));
      return;
    }
    const auto& ids = is_input ? problem_.graph.inputs : problem_.graph.outputs;
    const graph::Value& of = problem_.graph.value(ids[static_cast<std::size_t>(value.index)]);
    std::vector<std::int64_t> strides;
    for (const Dim& stride : of.layout->strides) strides.push_back(stride.evaluate(bindings));
    memories_.push_back(std::make_unique<Memory>(bits(of.dtype) / 8, extents_of(*of.shape, bindings),
                                                 std::move(strides), is_input ? kNaN : kUntouched));
    if (is_input) memories_.back()->put(inputs[static_cast<std::size_t>(value.index)]);
  }

  void launch(const templates::KernelLaunch& launch, const jit::LoadedKernel& kernel,
              const graph::Bindings& bindings) {
    const runtime::BoundLaunch bound =
        runtime::bind_launch(launch, kernel, bindings, program_.values, [&](int value) -> runtime::BufferRef {
          return {.fixed = memories_[static_cast<std::size_t>(value)]->origin()};
        });
    std::vector<std::uint64_t> words = bound.words;
    for (const runtime::BoundLaunch::Patch& patch : bound.patches)
      words[patch.word] = reinterpret_cast<std::uint64_t>(patch.buffer.fixed + patch.buffer.offset);
    const std::int64_t stride = ceil_divide(bound.scratch_bytes, 64) * 64;
    const runtime::AlignedBuffer scratch(stride);
    runtime::run_launch(bound, words, {scratch.data(), stride}, {});
  }

  const Template& template_;
  const Template::Sample& sample_;
  const Problem& problem_;
  const ExamOptions& options_;
  Program program_;
  std::vector<jit::LoadedKernel> kernels_;  // of the kernels, then of the prepare kernels
  std::vector<std::unique_ptr<Memory>> memories_;
};

}  // namespace

std::string examine(const Template& candidate, const Template::Sample& sample, const ExamOptions& options) {
  return Examination(candidate, sample, options).run();
}

}  // namespace kiln::testing
