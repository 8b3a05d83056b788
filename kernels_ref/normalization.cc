// Normalisations. Statistics are in f64 and the variance is that of the population.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

struct Moments {
  double mean, variance;
};

template <typename T>
Moments moments(const T* x, std::int64_t count) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(x[i]) - mean;
    squares += distance * distance;
  }
  return {mean, squares / static_cast<double>(count)};
}

// Reads a tensor of any float dtype that broadcasts to `extents` as dense f64.
std::vector<double> broadcast_numbers(const Tensor& tensor, const Extents& extents) {
  const std::vector<double> values = to_numbers(tensor);
  std::vector<double> result;
  const Nest<1> nest = coalesce(Nest<1>{extents, {broadcast_strides(tensor.extents(), extents)}});
  walk(nest, 0, element_count(extents), [&](const std::array<std::int64_t, 1>& offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      result.push_back(values[static_cast<std::size_t>(offsets[0] + i * nest.strides[0].back())]);
    }
  });
  return result;
}

// A per-channel parameter.
std::vector<double> channel_numbers(std::string_view what, const Tensor& tensor, std::int64_t channels) {
  expect_extents(what, tensor, {channels});
  return to_numbers(tensor);
}

DType stash_dtype(const Call& call) {
  // ONNX's own numbers: 1 is f32, 16 bf16.
  return call.promoted(integer(call.node, "stash_type") == 16 ? DType::BF16 : DType::F32);
}

// y = (x - mean) / sqrt(variance + epsilon) * scale[c] + bias[c] over groups of `channels / groups` channels.
void normalize_groups(Call& call, std::int64_t groups, std::vector<double> scale, std::vector<double> bias) {
  const Tensor& x = call.input(0);
  const double epsilon = number(call.node, "epsilon");
  const std::int64_t batch = x.extents()[0], channels = x.extents()[1];
  const std::int64_t inner = product(x.extents(), 2, x.extents().size());
  const std::int64_t per_group = channels / groups, count = per_group * inner;
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, batch * groups, 3 * count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        const T* from = x.as<T>().data() + group * count;
        T* to = y.as_mutable<T>().data() + group * count;
        const Moments m = moments(from, count);
        const double inverse = 1 / std::sqrt(m.variance + epsilon);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto channel = static_cast<std::size_t>(group % groups * per_group + i / inner);
          to[i] = static_cast<T>((static_cast<double>(from[i]) - m.mean) * inverse * scale[channel] +
                                 bias[channel]);
        }
      }
    });
  });
}

}  // namespace

void layer_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), layer_normalization)) return;
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const double epsilon = number(call.node, "epsilon");
  const Extents inner_extents(x.extents().begin() + static_cast<std::ptrdiff_t>(axis), x.extents().end());
  const std::int64_t rows = product(x.extents(), 0, axis), count = product(inner_extents);
  const std::vector<double> scale = broadcast_numbers(call.input(1), inner_extents);
  std::vector<double> bias(scale.size());
  if (call.has_input(2)) bias = broadcast_numbers(call.input(2), inner_extents);
  Extents kept = x.extents();
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(axis), kept.end(), 1);
  std::vector<double> means(static_cast<std::size_t>(rows)), inverses(means);
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, rows, 3 * count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* from = x.as<T>().data() + row * count;
        T* to = y.as_mutable<T>().data() + row * count;
        const Moments m = moments(from, count);
        const double inverse = 1 / std::sqrt(m.variance + epsilon);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto k = static_cast<std::size_t>(i);
          to[i] = static_cast<T>((static_cast<double>(from[i]) - m.mean) * inverse * scale[k] + bias[k]);
        }
        means[static_cast<std::size_t>(row)] = m.mean;
        inverses[static_cast<std::size_t>(row)] = inverse;
      }
    });
  });
  const auto give = [&](std::size_t index, std::vector<double>& values) {
    if (!call.wants(index)) return;
    const Tensor wide = Tensor::view(DType::F64, kept, values.data());
    const Tensor narrow = converted(call, wide, stash_dtype(call));
    Tensor& result = call.output(index, narrow.dtype(), kept);
    std::copy_n(narrow.data(), narrow.byte_size(), result.mutable_data());
  };
  give(1, means);
  give(2, inverses);
}

void rms_normalization(Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const double epsilon = number(call.node, "epsilon");
  const Extents inner_extents(x.extents().begin() + static_cast<std::ptrdiff_t>(axis), x.extents().end());
  const std::int64_t rows = product(x.extents(), 0, axis), count = product(inner_extents);
  const std::vector<double> scale = broadcast_numbers(call.input(1), inner_extents);
  Tensor& y = call.output(0, call.input(1).dtype(), x.extents());
  dispatch(Floats{}, x.dtype(), [&]<typename T>() {
    dispatch(Floats{}, y.dtype(), [&]<typename Result>() {
      for_range(call, rows, 2 * count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const T* from = x.as<T>().data() + row * count;
          Result* to = y.as_mutable<Result>().data() + row * count;
          double squares = 0;
          for (std::int64_t i = 0; i < count; ++i) squares += std::pow(convert<double>(from[i]), 2);
          const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
          for (std::int64_t i = 0; i < count; ++i) {
            to[i] = convert<Result>(convert<double>(from[i]) * inverse * scale[static_cast<std::size_t>(i)]);
          }
        }
      });
    });
  });
}

void instance_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), instance_normalization)) return;
  expect_rank("input", x, 2);
  const std::int64_t channels = x.extents()[1];
  normalize_groups(call, channels, channel_numbers("scale", call.input(1), channels),
                   channel_numbers("B", call.input(2), channels));
}
void group_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), group_normalization)) return;
  expect_rank("input", x, 2);
  const std::int64_t channels = x.extents()[1], groups = integer(call.node, "num_groups");
  if (groups <= 0 || channels % groups != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "{} channels cannot be split into {} groups", channels, groups);
  }
  normalize_groups(call, groups, channel_numbers("scale", call.input(1), channels),
                   channel_numbers("bias", call.input(2), channels));
}

void batch_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), batch_normalization)) return;
  expect_rank("input", x, 1);
  const std::int64_t channels = x.rank() > 1 ? x.extents()[1] : 1;
  const std::int64_t batch = x.extents()[0],
                     inner = product(x.extents(), std::min<std::size_t>(2, x.extents().size()),
                                     x.extents().size());
  const double epsilon = number(call.node, "epsilon"), momentum = number(call.node, "momentum");
  const std::vector<double> scale = channel_numbers("scale", call.input(1), channels);
  const std::vector<double> bias = channel_numbers("B", call.input(2), channels);
  std::vector<double> mean = channel_numbers("input_mean", call.input(3), channels);
  std::vector<double> variance = channel_numbers("input_var", call.input(4), channels);
  const bool training = integer(call.node, "training_mode") != 0;
  std::vector<double> running_mean = mean, running_variance = variance;
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for (std::int64_t c = 0; training && c < channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      double sum = 0, squares = 0;
      const auto over_channel = [&](auto visit) {
        for (std::int64_t n = 0; n < batch; ++n) {
          for (std::int64_t i = 0; i < inner; ++i)
            visit(static_cast<double>(from[(n * channels + c) * inner + i]));
        }
      };
      const double count = static_cast<double>(batch * inner);
      over_channel([&](double value) { sum += value; });
      mean[k] = sum / count;
      over_channel([&](double value) { squares += (value - mean[k]) * (value - mean[k]); });
      variance[k] = squares / count;
      running_mean[k] = running_mean[k] * momentum + mean[k] * (1 - momentum);
      running_variance[k] = running_variance[k] * momentum + variance[k] * (1 - momentum);
    }
    for_range(call, batch * channels, inner, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto c = static_cast<std::size_t>(row % channels);
        const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
        for (std::int64_t i = row * inner; i < (row + 1) * inner; ++i) {
          to[i] = static_cast<T>((static_cast<double>(from[i]) - mean[c]) * factor + bias[c]);
        }
      }
    });
  });
  const auto give = [&](std::size_t index, std::size_t like, std::vector<double>& values) {
    if (!call.wants(index)) return;
    const Tensor narrow =
        converted(call, Tensor::view(DType::F64, {channels}, values.data()), call.input(like).dtype());
    Tensor& result = call.output(index, narrow.dtype(), {channels});
    std::copy_n(narrow.data(), narrow.byte_size(), result.mutable_data());
  };
  give(1, 3, running_mean);
  give(2, 4, running_variance);
}

void mean_variance_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), mean_variance_normalization)) return;
  const std::vector<bool> reduced = axis_flags(integers(call.node, "axes"), x.rank());
  const Extents strides = dense_strides(x.extents());
  Nest<1> kept, inner;
  for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
    Nest<1>& nest = reduced[axis] ? inner : kept;
    nest.extents.push_back(x.extents()[axis]);
    nest.strides[0].push_back(strides[axis]);
  }
  const std::int64_t count = element_count(inner.extents), rows = element_count(kept.extents);
  kept = coalesce(kept);
  inner = coalesce(inner);
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    walk(kept, 0, rows, [&](const std::array<std::int64_t, 1>& starts, std::int64_t length) {
      for (std::int64_t k = 0; k < length; ++k) {
        const std::int64_t base = starts[0] + k * kept.strides[0].back();
        const auto over_row = [&](auto visit) {
          walk(inner, 0, count, [&](const std::array<std::int64_t, 1>& offsets, std::int64_t run) {
            for (std::int64_t i = 0; i < run; ++i) visit(base + offsets[0] + i * inner.strides[0].back());
          });
        };
        double sum = 0, squares = 0;
        over_row([&](std::int64_t at) { sum += static_cast<double>(from[at]); });
        const double mean = sum / static_cast<double>(count);
        over_row([&](std::int64_t at) {
          squares += (static_cast<double>(from[at]) - mean) * (static_cast<double>(from[at]) - mean);
        });
        // The standard's function adds 1e-9 to the deviation, which only matters where that is 0.
        const double deviation = std::sqrt(squares / static_cast<double>(count)) + 1e-9;
        over_row([&](std::int64_t at) {
          to[at] = static_cast<T>((static_cast<double>(from[at]) - mean) / deviation);
        });
      }
    });
  });
}

void lp_normalization(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), lp_normalization)) return;
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const std::int64_t p = integer(call.node, "p");
  if (p != 1 && p != 2) throw_caller(ErrorCode::InvalidArgument, "p must be 1 or 2, got {}", p);
  const std::int64_t outer = product(x.extents(), 0, axis), count = x.extents()[axis];
  const std::int64_t inner = product(x.extents(), axis + 1, x.extents().size());
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for (std::int64_t row = 0; row < outer * inner; ++row) {
      const std::int64_t base = row / inner * count * inner + row % inner;
      const T* from = x.as<T>().data() + base;
      T* to = y.as_mutable<T>().data() + base;
      double norm = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = std::abs(static_cast<double>(from[i * inner]));
        norm += p == 1 ? value : value * value;
      }
      if (p == 2) norm = std::sqrt(norm);
      // A row of norm 0 stays as it is.
      for (std::int64_t i = 0; i < count; ++i) {
        to[i * inner] =
            norm == 0 ? from[i * inner] : static_cast<T>(static_cast<double>(from[i * inner]) / norm);
      }
    }
  });
}

void lrn(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), lrn)) return;
  expect_rank("input", x, 2);
  const double alpha = number(call.node, "alpha"), beta = number(call.node, "beta"),
               bias = number(call.node, "bias");
  const std::int64_t size = integer(call.node, "size");
  if (size <= 0) throw_caller(ErrorCode::InvalidArgument, "size must be positive, got {}", size);
  const std::int64_t channels = x.extents()[1], inner = product(x.extents(), 2, x.extents().size());
  const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, x.extents()[0] * channels, inner * 20, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t channel = row % channels;
        const std::int64_t low = std::max<std::int64_t>(-channel, -before);
        const std::int64_t high = std::min(channels - 1 - channel, after);
        for (std::int64_t i = 0; i < inner; ++i) {
          const T* at = x.as<T>().data() + row * inner + i;
          double squares = 0;
          for (std::int64_t k = low; k <= high; ++k)
            squares += static_cast<double>(at[k * inner]) * static_cast<double>(at[k * inner]);
          y.as_mutable<T>().data()[row * inner + i] = static_cast<T>(
              static_cast<double>(*at) / std::pow(bias + alpha / static_cast<double>(size) * squares, beta));
        }
      }
    });
  });
}

}  // namespace kiln::reference
