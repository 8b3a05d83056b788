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

const Tensor& Call::input(std::size_t index) const {
  require(has_input(index), "{} was called without its input {}", name(node.op), index);
  return *inputs[index];
}

Tensor& Call::output(std::size_t index, DType dtype, Extents extents) {
  if (outputs.size() <= index) outputs.resize(index + 1);
  Tensor& tensor = outputs[index];
  const bool fits = tensor.data() != nullptr && tensor.dtype() == dtype && tensor.extents() == extents;
  if (!fits) tensor = Tensor(dtype, std::move(extents));
  return tensor;
}

void Call::output_view(std::size_t index, const Tensor& source, Extents extents) {
  if (outputs.size() <= index) outputs.resize(index + 1);
  Tensor& tensor = outputs[index];
  Tensor view = source.reshaped(std::move(extents));
  const bool fits =
      tensor.data() != nullptr && tensor.dtype() == view.dtype() && tensor.extents() == view.extents();
  if (!fits) {
    tensor = std::move(view);
  } else if (tensor.data() == view.data()) {
    return;
  } else if (view.dtype() == DType::String) {
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

}  // namespace kiln::reference
