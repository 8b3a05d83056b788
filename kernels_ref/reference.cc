#include "kernels_ref/reference.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

constexpr std::size_t kOpCount = 0
#define KILN_OP(...) +1
#include "ir/graph/ops.def"
#undef KILN_OP
    ;

constexpr std::array<Kernel, kOpCount> kKernels = [] {
  std::array<Kernel, kOpCount> table{};
#define KILN_REFERENCE(kind, function) table[static_cast<std::size_t>(graph::OpKind::kind)] = function;
#include "kernels_ref/kernels.def"
#undef KILN_REFERENCE
  return table;
}();

}  // namespace

const Datum& Call::datum(std::size_t index) const {
  require(has_input(index), "{} was called without its input {}", name(node.op), index);
  return *inputs[index];
}

Tensor& Call::output(std::size_t index, DType dtype, Extents extents) {
  if (outputs.size() <= index) outputs.resize(index + 1);
  const bool fits = outputs[index].is_tensor() && outputs[index].tensor().dtype() == dtype &&
                    outputs[index].tensor().extents() == extents;
  if (!fits) outputs[index] = Tensor(dtype, std::move(extents));
  return outputs[index].tensor();
}

void Call::output_view(std::size_t index, const Tensor& source, Extents extents) {
  if (outputs.size() <= index) outputs.resize(index + 1);
  Tensor view = source.reshaped(std::move(extents));
  if (!outputs[index].is_tensor() || outputs[index].tensor().dtype() != view.dtype() ||
      outputs[index].tensor().extents() != view.extents()) {
    outputs[index] = std::move(view);
    return;
  }
  Tensor& tensor = outputs[index].tensor();
  if (tensor.data() == view.data()) return;
  if (view.dtype() == DType::String) {
    const auto strings = view.as<std::string>();
    std::copy(strings.begin(), strings.end(), tensor.as_mutable<std::string>().begin());
  } else if (view.byte_size() > 0) {
    std::memmove(tensor.mutable_data(), view.data(), static_cast<std::size_t>(view.byte_size()));
  }
}

Kernel find(graph::OpKind op) { return kKernels[static_cast<std::size_t>(op)]; }

DType widened(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16 ? DType::F64 : dtype;
}

Tensor widened_to_f64(const Tensor& tensor) {
  if (widened(tensor.dtype()) == tensor.dtype()) return tensor;
  Tensor result(DType::F64, tensor.extents());
  std::ranges::copy(to_numbers(tensor), result.as_mutable<double>().begin());
  return result;
}

Datum widened_to_f64(const Datum& datum) {
  if (datum.is_tensor()) return widened_to_f64(datum.tensor());
  if (datum.is_map()) return Map{datum.map().keys, widened_to_f64(datum.map().values)};
  if (!datum.is_sequence()) return datum;
  Sequence wide{widened(datum.sequence().dtype), {}};
  for (const Datum& item : datum.sequence().items) wide.items.push_back(widened_to_f64(item));
  return wide;
}

}  // namespace kiln::reference
