// Regions of images, given by the corners of boxes, pooled or resized to a fixed size.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// X as images, with the regions in them.
struct Regions {
  std::int64_t batch, channels, height, width;
  std::int64_t count, columns;
  std::vector<double> numbers;      // `columns` of each region
  std::vector<std::int64_t> image;  // of each region

  const double* region(std::int64_t i) const { return numbers.data() + i * columns; }
};

std::int64_t checked_image(std::int64_t index, std::int64_t batch) {
  if (index < 0 || index >= batch) {
    throw_caller(ErrorCode::IndexOutOfRange, "a region lies in image {} of a batch of {}", index, batch);
  }
  return index;
}

// A corner in elements of the image, as near as integers reach.
double scaled_corner(double coordinate, double scale) {
  constexpr double kFar = 1e15;
  const double corner = coordinate * scale;
  if (!(std::abs(corner) <= kFar)) {
    throw_caller(ErrorCode::InvalidArgument, "a region reaches to {}, expected at most {}", corner, kFar);
  }
  return corner;
}

// `columns` numbers make a region; the image is given by input 2, or by the first of them.
Regions read_regions(const Call& call, std::int64_t columns, bool has_indices) {
  const Tensor &x = call.input(0), &rois = call.input(1);
  if (x.rank() != 4) {
    throw_caller(ErrorCode::ShapeMismatch, "X must have rank 4, got {}", to_string(x.extents()));
  }
  if (rois.rank() != 2 || rois.extents()[1] != columns) {
    throw_caller(ErrorCode::ShapeMismatch, "regions must be rows of {} numbers, got {}", columns,
                 to_string(rois.extents()));
  }
  Regions regions{.batch = x.extents()[0],
                  .channels = x.extents()[1],
                  .height = x.extents()[2],
                  .width = x.extents()[3],
                  .count = rois.extents()[0],
                  .columns = columns,
                  .numbers = to_numbers(rois),
                  .image = {}};
  for (const double number : regions.numbers) {
    if (!std::isfinite(number) || std::abs(number) > 1e15) {
      throw_caller(ErrorCode::InvalidArgument, "a region has the coordinate {}, expected a finite one",
                   number);
    }
  }
  if (has_indices) {
    expect_extents("batch_indices", call.input(2), {regions.count});
    for (const std::int64_t index : call.input(2).to_integers()) {
      regions.image.push_back(checked_image(index, regions.batch));
    }
  } else {
    for (std::int64_t i = 0; i < regions.count; ++i) {
      regions.image.push_back(checked_image(static_cast<std::int64_t>(regions.region(i)[0]), regions.batch));
    }
  }
  return regions;
}

// Two neighbours along one axis with their weights; weights of 0 outside.
struct Neighbours {
  std::int64_t low = 0, high = 0;
  double low_weight = 0, high_weight = 0;
};

// RoiAlign's bilinear: up to one element outside the image the edge goes on, beyond there is nothing.
Neighbours neighbours_at(double at, std::int64_t extent) {
  if (!(at >= -1 && at <= static_cast<double>(extent)) || extent == 0) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<std::int64_t>(at);
  if (low >= extent - 1) return {extent - 1, extent - 1, 1, 0};
  const double rest = at - static_cast<double>(low);
  return {low, low + 1, 1 - rest, rest};
}

// The samples of one bin along one axis.
struct BinSamples {
  std::vector<Neighbours> inside;
  double count = 0;  // with those outside the image
};

BinSamples samples_of_bin(double start, double size, std::int64_t ratio, std::int64_t extent) {
  BinSamples samples;
  samples.count = ratio > 0 ? static_cast<double>(ratio) : std::ceil(size);
  if (samples.count < 1) return samples;
  const double step = size / samples.count;
  // Samples before -1 and after the extent add nothing.
  double first = 0, last = samples.count - 1;
  if (step > 0) {
    first = std::clamp(std::floor((-1 - start) / step - 1), 0.0, samples.count);
    last = std::clamp(std::ceil((static_cast<double>(extent) - start) / step), -1.0, samples.count - 1);
  }
  constexpr double kMostSamples = 1 << 24;
  if (last - first > kMostSamples) {
    throw_caller(ErrorCode::LimitExceeded, "a bin has {} samples along an axis, expected at most {}",
                 last - first, kMostSamples);
  }
  const auto end = static_cast<std::int64_t>(last);
  for (auto i = static_cast<std::int64_t>(first); i <= end; ++i) {
    const Neighbours at = neighbours_at(start + (static_cast<double>(i) + 0.5) * step, extent);
    if (at.low_weight != 0 || at.high_weight != 0) samples.inside.push_back(at);
  }
  return samples;
}

// Mean, or greatest, of the samples of one bin in one plane.
template <typename T>
double pool_bin(const T* plane, std::int64_t width, const BinSamples& rows, const BinSamples& columns,
                bool mean) {
  const double count = rows.count * columns.count;
  if (count < 1) return 0;
  const bool some_outside =
      static_cast<double>(rows.inside.size()) * static_cast<double>(columns.inside.size()) < count;
  double total = 0, greatest = some_outside ? 0 : -std::numeric_limits<double>::infinity();
  for (const Neighbours& y : rows.inside) {
    const T *low = plane + y.low * width, *high = plane + y.high * width;
    for (const Neighbours& x : columns.inside) {
      const double a = y.low_weight * x.low_weight * static_cast<double>(low[x.low]);
      const double b = y.low_weight * x.high_weight * static_cast<double>(low[x.high]);
      const double c = y.high_weight * x.low_weight * static_cast<double>(high[x.low]);
      const double d = y.high_weight * x.high_weight * static_cast<double>(high[x.high]);
      if (mean) {
        total += a + b + c + d;
      } else {
        greatest = larger(greatest, larger(larger(a, b), larger(c, d)));
      }
    }
  }
  return mean ? total / count : greatest;
}

}  // namespace

// "max" takes the greatest of the four weighted neighbours of each sample, not of their sums: what the
// standard's tests and ONNX Runtime have.
void roi_align(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), roi_align)) return;
  const Regions regions = read_regions(call, 4, true);
  const bool aligned = text(call.node, "coordinate_transformation_mode") == "half_pixel";
  const bool mean = text(call.node, "mode") == "avg";
  const double scale = number(call.node, "spatial_scale"), shift = aligned ? 0.5 : 0;
  const std::int64_t ratio = integer(call.node, "sampling_ratio");
  const std::int64_t height = integer(call.node, "output_height"), width = integer(call.node, "output_width");
  const Extents extents = {regions.count, regions.channels, height, width};
  expect_bounded(extents, "the pooled regions");
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  const auto bins = [&](double begin, double end, std::int64_t count, std::int64_t extent) {
    const double start = scaled_corner(begin, scale) - shift;
    double size = scaled_corner(end, scale) - shift - start;
    if (!aligned) size = std::max(size, 1.0);
    size /= static_cast<double>(count);
    std::vector<BinSamples> result;
    for (std::int64_t i = 0; i < count; ++i) {
      result.push_back(samples_of_bin(start + static_cast<double>(i) * size, size, ratio, extent));
    }
    return result;
  };
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const std::int64_t plane = regions.height * regions.width;
    for_range(call, regions.count, 64 * regions.channels * height * width,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const double* box = regions.region(i);  // x0, y0, x1, y1
                  const std::vector<BinSamples> rows = bins(box[1], box[3], height, regions.height);
                  const std::vector<BinSamples> columns = bins(box[0], box[2], width, regions.width);
                  const T* image = x.as<T>().data() +
                                   regions.image[static_cast<std::size_t>(i)] * regions.channels * plane;
                  T* to = y.as_mutable<T>().data() + i * regions.channels * height * width;
                  for (std::int64_t c = 0; c < regions.channels; ++c) {
                    for (const BinSamples& row : rows) {
                      for (const BinSamples& column : columns) {
                        *to++ = static_cast<T>(pool_bin(image + c * plane, regions.width, row, column, mean));
                      }
                    }
                  }
                }
              });
  });
}

// Corners are rounded to elements, half away from zero, and belong to the region; a bin without elements is
// 0.
void max_roi_pool(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), max_roi_pool)) return;
  const Regions regions = read_regions(call, 5, false);
  const auto pooled = integers(call.node, "pooled_shape");
  const double scale = number(call.node, "spatial_scale");
  const Extents extents = {regions.count, regions.channels, pooled[0], pooled[1]};
  expect_bounded(extents, "the pooled regions");
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  struct Bin {
    std::int64_t begin, end;
  };
  const auto bins = [&](double first, double last, std::int64_t count, std::int64_t extent) {
    const double start = std::round(scaled_corner(first, scale));
    const double size =
        std::max(std::round(scaled_corner(last, scale)) - start + 1, 1.0) / static_cast<double>(count);
    const auto clip = [&](double at) {
      return static_cast<std::int64_t>(std::clamp(at + start, 0.0, static_cast<double>(extent)));
    };
    std::vector<Bin> result;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<double>(i);
      result.push_back({clip(std::floor(at * size)), clip(std::ceil((at + 1) * size))});
    }
    return result;
  };
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const std::int64_t plane = regions.height * regions.width;
    T* to = y.as_mutable<T>().data();
    for (std::int64_t i = 0; i < regions.count; ++i) {
      const double* box = regions.region(i) + 1;  // x0, y0, x1, y1
      const std::vector<Bin> rows = bins(box[1], box[3], pooled[0], regions.height);
      const std::vector<Bin> columns = bins(box[0], box[2], pooled[1], regions.width);
      const T* image =
          x.as<T>().data() + regions.image[static_cast<std::size_t>(i)] * regions.channels * plane;
      for (std::int64_t c = 0; c < regions.channels; ++c) {
        for (const Bin& row : rows) {
          for (const Bin& column : columns) {
            const bool empty = row.begin >= row.end || column.begin >= column.end;
            T greatest = empty ? T(0) : -std::numeric_limits<T>::infinity();
            for (std::int64_t h = row.begin; h < row.end; ++h) {
              for (std::int64_t w = column.begin; w < column.end; ++w) {
                greatest = larger(greatest, image[c * plane + h * regions.width + w]);
              }
            }
            *to++ = greatest;
          }
        }
      }
    }
  });
}

// Boxes are y0, x0, y1, x1 in parts of the image's height and width; corners are aligned.
void crop_and_resize(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), crop_and_resize)) return;
  const Regions regions = read_regions(call, 4, true);
  const std::vector<std::int64_t> size = call.input(3).to_integers();
  if (size.size() != 2) {
    throw_caller(ErrorCode::ShapeMismatch, "crop_size must have 2 elements, got {}", size.size());
  }
  const Extents extents = {regions.count, regions.channels, size[0], size[1]};
  expect_bounded(extents, "the crops");
  const double outside = number(call.node, "extrapolation_value");
  const bool nearest = text(call.node, "mode") == "nearest";
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  // -1 outside the image. Rounded as the regions are, so that ties of `nearest` are those of exact
  // arithmetic.
  const bool single = call.input(1).dtype() != DType::F64;
  const auto position = [single](double begin, double end, std::int64_t i, std::int64_t count,
                                 std::int64_t extent) {
    const auto last = static_cast<double>(extent - 1);
    const double exact = count > 1 ? begin * last + static_cast<double>(i) * (end - begin) * last /
                                                        static_cast<double>(count - 1)
                                   : 0.5 * (begin + end) * last;
    const double at = single ? static_cast<double>(static_cast<float>(exact)) : exact;
    return at >= 0 && at <= last ? at : -1;
  };
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const std::int64_t plane = regions.height * regions.width;
    T* to = y.as_mutable<T>().data();
    for (std::int64_t i = 0; i < regions.count; ++i) {
      const double* box = regions.region(i);
      for (std::int64_t c = 0; c < regions.channels; ++c) {
        const T* from =
            x.as<T>().data() + (regions.image[static_cast<std::size_t>(i)] * regions.channels + c) * plane;
        const auto element = [&](double row, double column) {
          return static_cast<double>(
              from[static_cast<std::int64_t>(row) * regions.width + static_cast<std::int64_t>(column)]);
        };
        for (std::int64_t h = 0; h < size[0]; ++h) {
          const double row = position(box[0], box[2], h, size[0], regions.height);
          for (std::int64_t w = 0; w < size[1]; ++w) {
            const double column = position(box[1], box[3], w, size[1], regions.width);
            double value = outside;
            if (row >= 0 && column >= 0) {
              if (nearest) {
                value = element(std::round(row), std::round(column));
              } else {
                const double top = std::floor(row), left = std::floor(column);
                const double down = row - top, right = column - left;
                const double upper =
                    element(top, left) * (1 - right) + element(top, std::ceil(column)) * right;
                const double lower = element(std::ceil(row), left) * (1 - right) +
                                     element(std::ceil(row), std::ceil(column)) * right;
                value = upper * (1 - down) + lower * down;
              }
            }
            *to++ = static_cast<T>(value);
          }
        }
      }
    }
  });
}

}  // namespace kiln::reference
