#include "ir/templates/samples.h"

#include <algorithm>
#include <numeric>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Shape;
using graph::ValueId;

constexpr std::int64_t kGap = 3;  // elements

}  // namespace

Dim SampleBuilder::symbol(std::string name) { return Dim::symbol(graph_.add_symbol({std::move(name), {}})); }

void SampleBuilder::lay(ValueId id, Lie lie) {
  const Shape& shape = *graph_.value(id).shape;
  const std::size_t rank = shape.size();
  graph::AxisOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (lie == Lie::ChannelsLast) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  if (lie == Lie::Transposed) std::rotate(order.begin(), order.end() - 1, order.end());
  graph::Layout layout{.storage = id, .offset = 0, .strides = std::vector<Dim>(rank), .halo = {}};
  Dim stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[k]);
    layout.strides[axis] = stride;
    stride = stride * shape[axis];
    if (lie == Lie::Pitched && k + 1 == rank) stride = stride + Dim(kGap);
  }
  if (lie == Lie::Reversed) layout.strides.back() = Dim(0) - layout.strides.back();
  if (lie == Lie::Repeated) layout.strides.front() = 0;
  graph_.value(id).layout = std::move(layout);
}

ValueId SampleBuilder::input(DType dtype, Shape shape, Lie lie) {
  graph::Value value;
  value.dtype = dtype;
  value.shape = std::move(shape);
  const ValueId id = graph_.add_value(std::move(value));
  graph_.inputs.push_back(id);
  inputs_.push_back(id);
  lay(id, lie);
  return id;
}

ValueId SampleBuilder::weights(DType dtype, Extents extents) {
  const ValueId id = graph_.add_constant(Tensor(dtype, std::move(extents)));
  graph_.value(id).elements.reset();
  inputs_.push_back(id);
  return id;
}

ValueId SampleBuilder::indices(DType dtype, Shape shape, ValueId data, std::size_t axis, Lie lie) {
  const auto number =
      static_cast<std::size_t>(std::find(inputs_.begin(), inputs_.end(), data) - inputs_.begin());
  index_inputs_.push_back({.input = inputs_.size(), .data = number, .axis = axis});
  return input(dtype, std::move(shape), lie);
}

ValueId SampleBuilder::integers(std::vector<std::int64_t> values) {
  return graph_.add_constant(Tensor::from_integers(values));
}

ValueId SampleBuilder::size(Dim dim) {
  graph::Value value;
  value.dtype = DType::I64;
  value.shape = Shape{Dim(1)};
  value.elements = {std::move(dim)};
  return graph_.add_value(std::move(value));
}

ValueId SampleBuilder::number(DType dtype, double value) {
  Tensor tensor(dtype, {});
  switch (dtype) {
    case DType::F32:
      tensor.as_mutable<float>()[0] = static_cast<float>(value);
      break;
    case DType::F64:
      tensor.as_mutable<double>()[0] = value;
      break;
    case DType::F16:
      tensor.as_mutable<Float16>()[0] = Float16(value);
      break;
    case DType::I64:
      tensor.as_mutable<std::int64_t>()[0] = static_cast<std::int64_t>(value);
      break;
    case DType::U8:
      tensor.as_mutable<std::uint8_t>()[0] = static_cast<std::uint8_t>(value);
      break;
    default:
      throw_bug("no sample number of {}", name(dtype));
  }
  return graph_.add_constant(std::move(tensor));
}

void SampleBuilder::output(ValueId id, Lie lie) {
  graph_.outputs.push_back(id);
  lay(id, lie);
}

Template::Sample SampleBuilder::finish(ValueId root, const std::vector<std::vector<std::int64_t>>& sizes) {
  const graph::Region region{.nodes = graph_.topological_order(),
                             .root = graph_.value(root).producer,
                             .inputs = inputs_,
                             .outputs = graph_.outputs};
  Template::Sample sample{.problem = make_problem(graph_, region),
                          .sizes = {},
                          .label = std::move(label_),
                          .index_inputs = std::move(index_inputs_)};
  for (const std::vector<std::int64_t>& bindings : sizes) {
    graph::Bindings bound;
    for (const Dim& origin : sample.problem.symbol_origin) bound.push_back(origin.evaluate(bindings));
    sample.sizes.push_back(std::move(bound));
  }
  return sample;
}

}  // namespace kiln::templates
