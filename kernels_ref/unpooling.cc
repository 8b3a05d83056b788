// Windows put back where they came from.
#include <algorithm>
#include <complex>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/window.h"

namespace kiln::reference {

// Indices count in the result as it is without output_shape, which adds zeros at the ends of the axes. Of
// values with one index the last stays.
void max_unpool(Call& call) {
  const Tensor &x = call.input(0), &indices = call.input(1);
  expect_rank("X", x, 3);
  expect_extents("I", indices, x.extents());
  const std::size_t rank = x.extents().size() - 2;
  const auto kernel = window_attribute(call.node, "kernel_shape", rank, 1, 1);
  const auto strides = window_attribute(call.node, "strides", rank, 1, 1);
  const auto pads = window_attribute(call.node, "pads", 2 * rank, 0, 0);
  Extents natural = {x.extents()[0], x.extents()[1]};
  for (std::size_t k = 0; k < rank; ++k) {
    natural.push_back((x.extents()[2 + k] - 1) * strides[k] + kernel[k] - pads[k] - pads[rank + k]);
  }
  expect_bounded(natural, "the unpooled tensor");
  const Extents extents = call.has_input(2) ? call.input(2).to_integers() : natural;
  if (extents.size() != rank + 2 || extents[0] != natural[0] || extents[1] != natural[1]) {
    throw_caller(ErrorCode::ShapeMismatch, "output_shape must begin with batch and channels of X, {}, got {}",
                 to_string(x.extents()), to_string(extents));
  }
  expect_bounded(extents, "output_shape");
  Tensor& y = call.output(0, x.dtype(), extents);
  const std::int64_t count = product(natural);
  const std::span<const std::int64_t> at = indices.as<std::int64_t>();
  dispatch_storage(x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    std::fill_n(to, y.elements(), T());
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const std::int64_t index = at[static_cast<std::size_t>(i)];
      if (index < 0 || index >= count) {
        throw_caller(ErrorCode::IndexOutOfRange, "index {} is out of range for the {} elements of {}", index,
                     count, to_string(natural));
      }
      std::int64_t rest = index, offset = 0, stride = 1;
      for (std::size_t k = natural.size(); k-- > 0; rest /= natural[k]) {
        if (rest % natural[k] >= extents[k]) {
          throw_caller(ErrorCode::IndexOutOfRange, "index {} of {} lies outside output_shape {}", index,
                       to_string(natural), to_string(extents));
        }
        offset += rest % natural[k] * stride;
        stride *= extents[k];
      }
      to[offset] = x.as<T>().data()[i];
    }
  });
}

namespace {

// Sums the columns of one image: `columns` is [taps, windows].
template <typename T, typename Sum>
void add_columns(const std::vector<WindowAxis>& axes, const T* columns, Sum* image) {
  std::int64_t taps = 1, windows = 1;
  for (const WindowAxis& axis : axes) {
    taps *= axis.kernel;
    windows *= axis.output;
  }
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t window = 0; window < windows; ++window) {
      std::int64_t tap_rest = tap, window_rest = window, offset = 0, stride = 1;
      bool inside = true;
      for (std::size_t k = axes.size(); k-- > 0;) {
        const WindowAxis& axis = axes[k];
        const std::int64_t at = axis.at(window_rest % axis.output, tap_rest % axis.kernel);
        inside = inside && axis.inside(at);
        offset += at * stride;
        stride *= axis.input;
        tap_rest /= axis.kernel;
        window_rest /= axis.output;
      }
      if (inside)
        image[offset] = static_cast<Sum>(image[offset] + static_cast<Sum>(columns[tap * windows + window]));
    }
  }
}

}  // namespace

void col2im(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), col2im)) return;
  if (x.rank() != 3) {
    throw_caller(ErrorCode::ShapeMismatch, "input must have rank 3, got {}", to_string(x.extents()));
  }
  const Extents image = call.input(1).to_integers(), block = call.input(2).to_integers();
  const std::size_t rank = image.size();
  if (block.size() != rank) {
    throw_caller(ErrorCode::ShapeMismatch, "image_shape has {} elements, block_shape {}, expected the same",
                 rank, block.size());
  }
  expect_bounded(image, "image_shape");
  expect_bounded(block, "block_shape");
  const auto strides = window_attribute(call.node, "strides", rank, 1, 1);
  const auto dilations = window_attribute(call.node, "dilations", rank, 1, 1);
  const auto pads = window_attribute(call.node, "pads", 2 * rank, 0, 0);
  std::vector<WindowAxis> axes(rank);
  Extents counts;
  for (std::size_t k = 0; k < rank; ++k) {
    axes[k] = {.input = image[k],
               .kernel = block[k],
               .stride = strides[k],
               .dilation = dilations[k],
               .pad_begin = pads[k],
               .pad_end = pads[rank + k]};
    axes[k].output = std::max<std::int64_t>(
        floor_divide(image[k] + pads[k] + pads[rank + k] - axes[k].reach(), strides[k]) + 1, 0);
    counts.push_back(axes[k].output);
  }
  const std::int64_t taps = product(block), windows = element_count(counts);
  if (taps == 0 || x.extents()[1] % taps != 0 || x.extents()[2] != windows) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "input of {} does not fit {} windows of block_shape {} in image_shape {}",
                 to_string(x.extents()), windows, to_string(block), to_string(image));
  }
  Extents extents = {x.extents()[0], x.extents()[1] / taps};
  extents.insert(extents.end(), image.begin(), image.end());
  expect_bounded(extents, "the image");
  Tensor& y = call.output(0, x.dtype(), extents);
  const std::int64_t plane = product(image), columns = taps * windows;
  const auto run = [&]<typename T, typename Sum>(const T* from, T* to, Sum) {
    for_range(call, extents[0] * extents[1], 4 * columns, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Sum> sums(static_cast<std::size_t>(plane));
      for (std::int64_t i = begin; i < end; ++i) {
        std::fill(sums.begin(), sums.end(), Sum());
        add_columns(axes, from + i * columns, sums.data());
        for (std::int64_t k = 0; k < plane; ++k)
          to[i * plane + k] = static_cast<T>(sums[static_cast<std::size_t>(k)]);
      }
    });
  };
  const auto complex = [&]<typename T>(T) {
    run(reinterpret_cast<const std::complex<T>*>(x.data()),
        reinterpret_cast<std::complex<T>*>(y.mutable_data()), std::complex<double>());
  };
  if (x.dtype() == DType::C64) return complex(float());
  if (x.dtype() == DType::C128) return complex(double());
  dispatch(decltype(join(WideFloats{}, join(Integers{}, Booleans{}))){}, x.dtype(), [&]<typename T>() {
    // Integers wrap; of booleans any is true.
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    run(x.as<T>().data(), y.as_mutable<T>().data(), Sum());
  });
}

}  // namespace kiln::reference
