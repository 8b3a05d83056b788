#include "tests/support/interpreted_run.h"

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/tile/interpreter.h"
#include "kernels_ref/reference.h"
#include "runtime/operands.h"

namespace kiln::testing {
namespace {

using graph::Graph;
using graph::ValueId;
using templates::ProgramValue;

class Interpreted {
 public:
  Interpreted(const runtime::Model& model, std::span<const Tensor> inputs, const Target& target,
              std::size_t variant)
      : model_(model), graph_(model.graph()), target_(target), variant_(variant) {
    bindings_.assign(graph_.symbols.size(), graph::kUnbound);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      storage_[graph_.inputs[i]] = bytes_of(inputs[i]);
      const graph::Shape& shape = *graph_.value(graph_.inputs[i]).shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (const auto symbol = shape[axis].as_symbol()) bindings_[symbol->index] = inputs[i].extents()[axis];
      }
    }
  }

  InterpretedRun run() {
    for (const runtime::CompiledRegion& region : model_.regions()) {
      if (region.generated()) {
        run_region(region);
      } else {
        result_.fallbacks.push_back(
            fmt::format("{}: {}", name(graph_.node(region.region.root).op), region.fallback_reason));
        for (const graph::NodeId id : region.region.nodes) run_reference(id);
      }
    }
    for (const ValueId id : graph_.outputs) result_.outputs.push_back(dense(id));
    return std::move(result_);
  }

 private:
  static std::vector<std::byte> bytes_of(const Tensor& tensor) {
    return {tensor.data(), tensor.data() + tensor.byte_size()};
  }

  Extents extents_of(const graph::Shape& shape) const {
    Extents extents;
    for (const graph::Dim& dim : shape) extents.push_back(dim.evaluate(bindings_));
    return extents;
  }

  // Memory of the Value's storage, made on first use and filled with a pattern that is wrong everywhere.
  std::vector<std::byte>& memory(ValueId storage) {
    auto& bytes = storage_[storage];
    const graph::Value& value = graph_.value(storage);
    if (runtime::is_known(value) && bytes.empty())
      bytes = bytes_of(runtime::elements_tensor(value, bindings_));
    const auto wanted =
        static_cast<std::size_t>(byte_size(value.dtype, element_count_of(extents_of(*value.shape))));
    if (bytes.size() < wanted) bytes.resize(wanted, std::byte{0x7f});
    return bytes;
  }

  static std::int64_t element_count_of(const Extents& extents) {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents) product *= extent;
    return product;
  }

  void run_region(const runtime::CompiledRegion& region) {
    graph::Bindings symbols;
    for (const graph::Dim& origin : region.problem.symbol_origin)
      symbols.push_back(origin.evaluate(bindings_));
    std::vector<templates::VariantChoice> admitted;
    for (templates::VariantChoice& choice : region.source->variants(region.problem, target_)) {
      if (choice.guard) {
        const std::int64_t size = choice.guard->dim.evaluate(symbols);
        if (size < choice.guard->low || size > choice.guard->high) continue;
      }
      admitted.push_back(std::move(choice));
    }
    const templates::Program program =
        region.source->build(region.problem, admitted[variant_ % admitted.size()].parameters, target_);
    std::map<int, std::vector<std::byte>> own;
    for (const auto* launches : {&program.prepare, &program.kernels}) {
      for (const templates::KernelLaunch& launch : *launches)
        run_launch(region, program, launch, symbols, own);
    }
  }

  void run_launch(const runtime::CompiledRegion& region, const templates::Program& program,
                  const templates::KernelLaunch& launch, const graph::Bindings& symbols,
                  std::map<int, std::vector<std::byte>>& own) {
    std::vector<tile::Argument> arguments;
    for (const auto& argument : launch.arguments) {
      if (const auto* scalar = std::get_if<templates::ScalarBinding>(&argument)) {
        if (const auto* dim = std::get_if<graph::Dim>(scalar)) {
          arguments.emplace_back(tile::Literal::integer(DType::I64, dim->evaluate(symbols)));
        } else {
          arguments.emplace_back(std::get<tile::Literal>(*scalar));
        }
        continue;
      }
      const auto& view = std::get<templates::ViewBinding>(argument);
      const ProgramValue& value = program.values[static_cast<std::size_t>(view.value)];
      tile::ViewArgument bound;
      bound.offset = view.offset.evaluate(symbols);
      for (const graph::Dim& extent : view.extents) bound.extents.push_back(extent.evaluate(symbols));
      for (const graph::Dim& stride : view.strides) bound.strides.push_back(stride.evaluate(symbols));
      if (value.kind == ProgramValue::Kind::Input || value.kind == ProgramValue::Kind::Output) {
        const auto& values =
            value.kind == ProgramValue::Kind::Input ? region.region.inputs : region.region.outputs;
        const graph::Value& outer = graph_.value(values[static_cast<std::size_t>(value.index)]);
        bound.bytes = memory(outer.layout->storage);
        bound.offset += outer.layout->offset.evaluate(bindings_);
      } else {
        auto& bytes = own[view.value];
        bytes.resize(static_cast<std::size_t>(byte_size(value.dtype, value.elements.evaluate(symbols))),
                     std::byte{0x7f});
        bound.bytes = bytes;
      }
      arguments.emplace_back(std::move(bound));
    }
    tile::interpret(launch.kernel, arguments);
  }

  template <typename Copy>
  void for_each_element(ValueId id, const Copy& copy) {
    const graph::Value& value = graph_.value(id);
    const Extents extents = extents_of(*value.shape);
    const std::int64_t element = bits(value.dtype) / 8;
    std::vector<std::byte>& bytes = memory(value.layout->storage);
    std::vector<std::int64_t> index(extents.size(), 0);
    const std::int64_t count = element_count_of(extents);
    for (std::int64_t flat = 0; flat < count; ++flat) {
      std::int64_t rest = flat, position = value.layout->offset.evaluate(bindings_);
      for (std::size_t i = extents.size(); i-- > 0; rest /= extents[i]) {
        position += rest % extents[i] * value.layout->strides[i].evaluate(bindings_);
      }
      copy(flat * element, bytes.data() + position * element, element);
    }
  }

  Tensor dense(ValueId id) {
    const graph::Value& value = graph_.value(id);
    if (runtime::is_known(value)) return runtime::elements_tensor(value, bindings_);
    Tensor tensor(value.dtype, extents_of(*value.shape));
    for_each_element(id, [&](std::int64_t at, const std::byte* from, std::int64_t bytes) {
      std::memcpy(tensor.mutable_data() + at, from, static_cast<std::size_t>(bytes));
    });
    return tensor;
  }

  void run_reference(graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    std::vector<Datum> held;
    for (const ValueId input : node.inputs) held.push_back(input ? Datum(dense(input)) : Datum());
    std::vector<const Datum*> inputs;
    for (const Datum& datum : held) inputs.push_back(datum.has_value() ? &datum : nullptr);
    reference::Call call{.node = node, .inputs = inputs, .outputs = std::vector<Datum>(node.outputs.size())};
    reference::find(node.op)(call);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i]) continue;
      const Tensor& output = call.outputs[i].tensor();
      for_each_element(node.outputs[i], [&](std::int64_t at, std::byte* to, std::int64_t bytes) {
        std::memcpy(to, output.data() + at, static_cast<std::size_t>(bytes));
      });
    }
  }

  const runtime::Model& model_;
  const Graph& graph_;
  const Target& target_;
  std::size_t variant_;
  graph::Bindings bindings_;
  std::map<ValueId, std::vector<std::byte>> storage_;
  InterpretedRun result_;
};

double element(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  switch (tensor.dtype()) {
    case DType::F32:
      return static_cast<double>(tensor.as<float>()[at]);
    case DType::F64:
      return tensor.as<double>()[at];
    case DType::F16:
      return static_cast<double>(tensor.as<Float16>()[at]);
    case DType::BF16:
      return static_cast<double>(tensor.as<BFloat16>()[at]);
    default:
      return static_cast<double>(tensor.to_integers()[at]);
  }
}

}  // namespace

InterpretedRun run_interpreted(const runtime::Model& model, std::span<const Tensor> inputs,
                               const Target& target, std::size_t variant) {
  return Interpreted(model, inputs, target, variant).run();
}

Tensor random_tensor(DType dtype, Extents extents, std::uint64_t seed) {
  Tensor tensor(dtype, std::move(extents));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  const auto count = static_cast<std::size_t>(tensor.elements());
  for (std::size_t i = 0; i < count; ++i) {
    const double value = real(random);
    const auto whole = static_cast<std::int64_t>((value + 1) * 5);
    switch (dtype) {
      case DType::F32:
        tensor.as_mutable<float>()[i] = static_cast<float>(value);
        break;
      case DType::F64:
        tensor.as_mutable<double>()[i] = value;
        break;
      case DType::F16:
        tensor.as_mutable<Float16>()[i] = Float16(value);
        break;
      case DType::BF16:
        tensor.as_mutable<BFloat16>()[i] = BFloat16(value);
        break;
      case DType::I64:
        tensor.as_mutable<std::int64_t>()[i] = whole;
        break;
      case DType::I32:
        tensor.as_mutable<std::int32_t>()[i] = static_cast<std::int32_t>(whole);
        break;
      case DType::I1:
        tensor.as_mutable<std::uint8_t>()[i] = value > 0;
        break;
      default:
        throw_bug("no random tensor of {}", name(dtype));
    }
  }
  return tensor;
}

std::string difference(const Tensor& got, const Tensor& want, double absolute, double relative) {
  if (got.dtype() != want.dtype())
    return fmt::format("dtype {} instead of {}", name(got.dtype()), name(want.dtype()));
  if (got.extents() != want.extents()) {
    return fmt::format("extents {} instead of {}", to_string(got.extents()), to_string(want.extents()));
  }
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!(std::abs(g - w) <= absolute + relative * std::abs(w)))
      return fmt::format("element {} is {} instead of {}", i, g, w);
  }
  return {};
}

}  // namespace kiln::testing
