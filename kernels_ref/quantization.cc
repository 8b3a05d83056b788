// Linear quantisation. Quotients are rounded half to even in the type of the input (f16 and bf16 in f32),
// then the zero point is added and the sum saturates.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/narrow.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Which element of the scale belongs to each element of the input.
class ScaleMap {
 public:
  ScaleMap(const Call& call, const Tensor& x, const Tensor& scale) {
    const std::int64_t block = integer(call.node, "block_size");
    if (block < 0) throw_caller(ErrorCode::InvalidArgument, "block_size must not be negative, got {}", block);
    if (scale.elements() == 1 && block == 0) return;
    const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
    extent_ = x.extents()[axis];
    inner_ = product(x.extents(), axis + 1, x.extents().size());
    if (block == 0) {
      if (scale.elements() != extent_) expect_extents("the scale", scale, {extent_});
      steps_ = extent_;
      per_axis_ = true;
    } else {
      Extents expected = x.extents();
      block_ = block;
      expected[axis] = steps_ = ceil_divide(extent_, block);
      expect_extents("the scale", scale, expected);
    }
  }

  std::size_t operator()(std::int64_t index) const {
    if (extent_ == 0) return 0;
    const std::int64_t along = index / inner_ % extent_;
    if (per_axis_) return static_cast<std::size_t>(along);
    return static_cast<std::size_t>((index / inner_ / extent_ * steps_ + along / block_) * inner_ +
                                    index % inner_);
  }

 private:
  std::int64_t extent_ = 0, inner_ = 1, block_ = 1, steps_ = 1;
  bool per_axis_ = false;
};

// The zero points, one for each scale.
std::vector<double> zero_points(const Call& call, const Tensor& scale) {
  if (!call.has_input(2)) return std::vector<double>(static_cast<std::size_t>(scale.elements()), 0.0);
  if (call.input(2).elements() != scale.elements()) {
    throw_caller(ErrorCode::ShapeMismatch, "a zero point of {} for a scale of {}",
                 to_string(call.input(2).extents()), to_string(scale.extents()));
  }
  return to_numbers(call.input(2));
}

DType output_dtype(const Call& call, DType otherwise) {
  const std::int64_t attribute = integer(call.node, "output_dtype");
  return attribute < 0 ? otherwise : static_cast<DType>(attribute);
}

}  // namespace

void quantize_linear(Call& call) {
  const Tensor &x = call.input(0), &scale = call.input(1);
  const DType dtype = output_dtype(call, call.has_input(2) ? call.input(2).dtype() : DType::U8);
  const ScaleMap map(call, x, scale);
  const std::vector<double> values = to_numbers(x), scales = to_numbers(scale),
                            zeros = zero_points(call, scale);
  const bool wide = x.dtype() == DType::F64 || scale.dtype() == DType::F64;
  const bool saturate = integer(call.node, "saturate") != 0;
  Tensor& y = call.output(0, dtype, x.extents());
  if (bits(dtype) < 8 && y.elements() > 0) y.mutable_data()[y.byte_size() - 1] = std::byte{0};
  const auto quotient = [&](std::int64_t i) {
    const double value = values[static_cast<std::size_t>(i)], by = scales[map(i)];
    return wide ? value / by : static_cast<double>(static_cast<float>(value) / static_cast<float>(by));
  };
  if (is_narrow(dtype)) {
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      double value = quotient(i);
      if (is_integer(dtype)) {
        value = std::nearbyint(value) + zeros[map(i)];
        value = std::min(std::max(value, lowest_integer(dtype)), highest_integer(dtype));
      } else if (dtype == DType::F4E2M1) {
        value += zeros[map(i)];  // which makes -0 the 0 that the standard's tests expect
      }
      store_narrow(y, i, narrow_pattern(dtype, value, {.saturate = saturate}));
    }
    return;
  }
  dispatch(Integers{}, dtype, [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for_range(call, x.elements(), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = convert<T>(std::nearbyint(quotient(i)) + zeros[map(i)]);
    });
  });
}

void dequantize_linear(Call& call) {
  const Tensor &x = call.input(0), &scale = call.input(1);
  const DType dtype = call.promoted(output_dtype(call, scale.dtype()));
  const ScaleMap map(call, x, scale);
  const std::vector<double> values = to_numbers(x), scales = to_numbers(scale),
                            zeros = zero_points(call, scale);
  Tensor& y = call.output(0, dtype, x.extents());
  dispatch(Floats{}, dtype, [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for_range(call, x.elements(), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::size_t k = map(i);
        to[i] = convert<T>((values[static_cast<std::size_t>(i)] - zeros[k]) * scales[k]);
      }
    });
  });
}

void dynamic_quantize_linear(Call& call) {
  const Tensor& x = call.input(0);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    T low = 0, high = 0;
    for (const T value : x.as<T>()) {
      low = smaller(low, value);
      high = larger(high, value);
    }
    const T scale = (high - low) / 255;
    const T zero = scale == 0 ? T{0} : std::nearbyint(-low / scale);
    const std::uint8_t zero_point = convert<std::uint8_t>(zero);
    std::uint8_t* to = call.output(0, DType::U8, x.extents()).template as_mutable<std::uint8_t>().data();
    for (const T value : x.as<T>()) {
      *to++ = convert<std::uint8_t>(scale == 0 ? T{0}
                                               : std::nearbyint(value / scale) + static_cast<T>(zero_point));
    }
    call.output(1, x.dtype(), {}).template as_mutable<T>()[0] = scale;
    call.output(2, DType::U8, {}).template as_mutable<std::uint8_t>()[0] = zero_point;
  });
}

}  // namespace kiln::reference
