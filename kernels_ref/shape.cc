// Operators on shapes, and makers of tensors.
#include <algorithm>
#include <cmath>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// A constant of the graph as this run wants it.
Tensor promoted_constant(const Call& call, const Tensor& tensor) {
  return call.promote_f32 ? widened_to_f64(tensor) : tensor;
}

template <typename T>
void fill_range(Call& call) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (call.input(i).dtype() != kDType<T> || call.input(i).elements() != 1) {
      throw_caller(ErrorCode::InvalidArgument, "start, limit and delta must be one {} each", name(kDType<T>));
    }
  }
  const auto start = static_cast<Compute<T>>(call.input(0).as<T>()[0]);
  const auto limit = static_cast<Compute<T>>(call.input(1).as<T>()[0]);
  const auto delta = static_cast<Compute<T>>(call.input(2).as<T>()[0]);
  if (delta == 0) throw_caller(ErrorCode::InvalidArgument, "delta must not be 0");
  std::int64_t count;
  if constexpr (kIsFloat<T>) {
    const double steps =
        std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (std::isnan(steps) || steps > 1e15)
      throw_caller(ErrorCode::LimitExceeded, "a range of {} elements", steps);
    count = static_cast<std::int64_t>(std::max(steps, 0.0));
  } else {
    // In unsigned arithmetic the distance of any two i64 fits.
    const bool forward = delta > 0;
    const auto low = static_cast<std::uint64_t>(std::int64_t{forward ? start : limit});
    const auto high = static_cast<std::uint64_t>(std::int64_t{forward ? limit : start});
    const auto step = static_cast<std::uint64_t>(std::int64_t{delta});
    const bool empty = forward ? start >= limit : start <= limit;
    count = empty ? 0 : static_cast<std::int64_t>((high - low - 1) / (forward ? step : -step) + 1);
    if (count < 0) throw_caller(ErrorCode::LimitExceeded, "a range of more than {} elements", INT64_MAX);
  }
  T* to = call.output(0, kDType<T>, {count}).template as_mutable<T>().data();
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (kIsFloat<T>) {
      to[i] = T(start + static_cast<Compute<T>>(i) * delta);
    } else {
      to[i] = static_cast<T>(static_cast<std::uint64_t>(start) +
                             static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta));
    }
  }
}

}  // namespace

void shape(Call& call) {
  const Extents& extents = call.input(0).extents();
  const std::int64_t rank = call.input(0).rank();
  const auto bound = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = bound(integer(call.node, "start"));
  const std::int64_t end = std::max(start, has(call.node, "end") ? bound(integer(call.node, "end")) : rank);
  Tensor& y = call.output(0, DType::I64, {end - start});
  std::copy(extents.begin() + start, extents.begin() + end, y.as_mutable<std::int64_t>().begin());
}
void size(Call& call) {
  call.output(0, DType::I64, {}).as_mutable<std::int64_t>()[0] = call.input(0).elements();
}
void constant(Call& call) {
  const Tensor value = promoted_constant(call, std::get<Tensor>(call.node.attributes.find("value")->second));
  call.output_view(0, value, value.extents());
}
void constant_of_shape(Call& call) {
  Tensor value(DType::F32, {1});
  if (has(call.node, "value")) value = std::get<Tensor>(call.node.attributes.find("value")->second);
  value = promoted_constant(call, value);
  if (value.elements() != 1) {
    throw_caller(ErrorCode::ShapeMismatch, "value must have one element, got {}", to_string(value.extents()));
  }
  Tensor& y = call.output(0, value.dtype(), call.input(0).to_integers());
  const int width = bits(value.dtype());
  if (width < 8) {
    unsigned pattern = std::to_integer<unsigned>(value.data()[0]) & ((1u << width) - 1);
    for (int filled = width; filled < 8; filled *= 2) pattern |= pattern << filled;
    std::fill_n(y.mutable_data(), y.byte_size(), static_cast<std::byte>(pattern));
  } else {
    copy_elements(call, value.dtype(),
                  {y.extents(), {dense_strides(y.extents()), Extents(y.extents().size(), 0)}},
                  y.mutable_data(), value.data());
  }
}
void range(Call& call) {
  dispatch(decltype(join(Floats{}, Signed{})){}, call.input(0).dtype(),
           [&]<typename T>() { fill_range<T>(call); });
}
void eye_like(Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() != 2)
    throw_caller(ErrorCode::ShapeMismatch, "input must be a matrix, got {}", to_string(x.extents()));
  const DType dtype = has(call.node, "dtype") ? static_cast<DType>(integer(call.node, "dtype")) : x.dtype();
  const std::int64_t k = integer(call.node, "k");
  Tensor& y = call.output(0, call.promoted(dtype), x.extents());
  dispatch(NumbersAndBooleans{}, y.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for (std::int64_t row = 0; row < x.extents()[0]; ++row) {
      for (std::int64_t column = 0; column < x.extents()[1]; ++column) {
        *to++ = convert<T>(std::int8_t{column - row == k});
      }
    }
  });
}

}  // namespace kiln::reference
