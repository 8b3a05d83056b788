#include "kernels_ref/arguments.h"

#include <algorithm>

#include "kernels_ref/element.h"
#include "kernels_ref/narrow.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

std::size_t normalized_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    throw_caller(ErrorCode::InvalidArgument, "axis {} is outside a tensor of rank {}", axis, rank);
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

std::vector<bool> axis_flags(std::span<const std::int64_t> axes, std::int64_t rank) {
  std::vector<bool> flags(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : axes) {
    const std::size_t index = normalized_axis(axis, rank);
    if (flags[index]) throw_caller(ErrorCode::InvalidArgument, "axis {} is listed twice", axis);
    flags[index] = true;
  }
  return flags;
}

std::vector<double> to_numbers(const Tensor& tensor) {
  std::vector<double> numbers;
  numbers.reserve(static_cast<std::size_t>(tensor.elements()));
  if (is_narrow(tensor.dtype())) {
    for (std::int64_t i = 0; i < tensor.elements(); ++i) numbers.push_back(load_narrow(tensor, i));
    return numbers;
  }
  dispatch(NumbersAndBooleans{}, tensor.dtype(), [&]<typename T>() {
    for (const T element : tensor.as<T>()) numbers.push_back(convert<double>(element));
  });
  return numbers;
}

double to_number(const Tensor& tensor) {
  if (tensor.elements() != 1) {
    throw_caller(ErrorCode::ShapeMismatch, "expected one element, got a tensor of {}",
                 to_string(tensor.extents()));
  }
  return to_numbers(tensor)[0];
}

std::int64_t to_integer(const Tensor& tensor) {
  if (tensor.elements() != 1) {
    throw_caller(ErrorCode::ShapeMismatch, "expected one element, got a tensor of {}",
                 to_string(tensor.extents()));
  }
  return tensor.to_integers()[0];
}

std::vector<std::int64_t> optional_integers(const Call& call, std::size_t index) {
  return call.has_input(index) ? call.input(index).to_integers() : std::vector<std::int64_t>{};
}

void expect_extents(std::string_view what, const Tensor& tensor, const Extents& extents) {
  if (tensor.extents() != extents) {
    throw_caller(ErrorCode::ShapeMismatch, "{} must be {}, got {}", what, to_string(extents),
                 to_string(tensor.extents()));
  }
}

void expect_rank(std::string_view what, const Tensor& tensor, std::int64_t minimum) {
  if (tensor.rank() < minimum) {
    throw_caller(ErrorCode::ShapeMismatch, "{} must have rank {} or more, got {}", what, minimum,
                 to_string(tensor.extents()));
  }
}

std::int64_t expect_bounded(std::int64_t elements, std::string_view what) {
  if (elements > kMostElements) {
    throw_caller(ErrorCode::LimitExceeded, "{} would have {} elements, expected at most {}", what, elements,
                 kMostElements);
  }
  return elements;
}

void expect_bounded(const Extents& extents, std::string_view what) {
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      throw_caller(ErrorCode::InvalidArgument, "{} would be {}, extents cannot be negative", what,
                   to_string(extents));
    }
  }
  expect_bounded(element_count(extents), what);
}

std::int64_t product(const Extents& extents, std::size_t begin, std::size_t end) {
  std::int64_t result = 1;
  for (std::size_t axis = begin; axis < end; ++axis) result *= extents[axis];
  return result;
}

Tensor converted(const Call& call, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor result(dtype, tensor.extents());
  dispatch(NumbersAndBooleans{}, tensor.dtype(), [&]<typename From>() {
    dispatch(NumbersAndBooleans{}, dtype, [&]<typename To>() {
      const From* from = tensor.as<From>().data();
      To* to = result.as_mutable<To>().data();
      for_range(call, tensor.elements(), 1, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
      });
    });
  });
  return result;
}

namespace {

// Runs `kernel` with the inputs of `dtype` replaced and each output passed through `finish(index, tensor)`.
template <typename Prepare, typename Finish>
void run_replaced(Call& call, DType dtype, Kernel kernel, Prepare prepare, Finish finish) {
  std::vector<Datum> replaced;
  replaced.reserve(call.inputs.size());
  std::vector<const Datum*> inputs(call.inputs.begin(), call.inputs.end());
  for (const Datum*& input : inputs) {
    if (input == nullptr || input->tensor().dtype() != dtype) continue;
    replaced.emplace_back(prepare(input->tensor()));
    input = &replaced.back();
  }
  Call inner{.node = call.node,
             .inputs = inputs,
             .outputs = std::vector<Datum>(call.node.outputs.size()),
             .parallel = call.parallel,
             .promote_f32 = call.promote_f32};
  kernel(inner);
  for (std::size_t i = 0; i < inner.outputs.size(); ++i) {
    if (!call.wants(i)) continue;
    const Tensor result = finish(i, inner.outputs[i].tensor());
    call.output_view(i, result, result.extents());
  }
}

}  // namespace

bool computed_in_f32(Call& call, DType dtype, Kernel kernel, std::initializer_list<std::size_t> narrowed) {
  if (dtype != DType::F16 && dtype != DType::BF16) return false;
  run_replaced(
      call, dtype, kernel, [&](const Tensor& input) { return converted(call, input, DType::F32); },
      [&](std::size_t index, const Tensor& output) {
        const bool narrow = std::find(narrowed.begin(), narrowed.end(), index) != narrowed.end();
        return narrow && output.dtype() == DType::F32 ? converted(call, output, dtype) : output;
      });
  return true;
}

Tensor unpacked(const Tensor& tensor) {
  Tensor bytes(DType::U8, tensor.extents());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    bytes.mutable_data()[i] = static_cast<std::byte>(load_packed(tensor.data(), bits(tensor.dtype()), i));
  }
  return bytes;
}

Tensor packed(DType dtype, const Tensor& bytes) {
  Tensor tensor(dtype, bytes.extents());
  for (std::int64_t i = 0; i < bytes.elements(); ++i) {
    store_packed(tensor.mutable_data(), bits(dtype), i, std::to_integer<std::uint8_t>(bytes.data()[i]));
  }
  return tensor;
}

bool moved_as_bytes(Call& call, DType dtype, Kernel kernel) {
  if (bits(dtype) >= 8) return false;
  run_replaced(call, dtype, kernel, unpacked, [&](std::size_t, const Tensor& output) {
    return output.dtype() == DType::U8 ? packed(dtype, output) : output;
  });
  return true;
}

}  // namespace kiln::reference
