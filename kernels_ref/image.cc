// Grids of coordinates, and images sampled at them. Coordinates and weights are f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Where element i of `count` lies in [-1, 1]: the ends at the centres of the outermost elements if corners
// are aligned, else at their outer edges.
double normalized_position(std::int64_t i, std::int64_t count, bool align_corners) {
  const auto at = static_cast<double>(i), n = static_cast<double>(count);
  if (align_corners) return count == 1 ? 0 : 2 * at / (n - 1) - 1;
  return (2 * at + 1) / n - 1;
}

enum class Padding : std::uint8_t { Zeros, Border, Reflection };

// One axis of the image that is sampled.
struct SampledAxis {
  std::int64_t extent;
  bool align_corners;
  Padding padding;

  double low() const { return align_corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(extent) - (align_corners ? 1 : 0.5); }

  double reflect(double at) const {
    const double range = high() - low();
    if (range <= 0 || !std::isfinite(at)) return low();
    const double beyond = at < low() ? low() - at : at > high() ? at - high() : 0;
    if (beyond == 0) return at;
    const double rest = std::fmod(beyond, range);
    const bool turned = std::fmod(beyond, 2 * range) >= range;
    return (at < low()) != turned ? low() + rest : high() - rest;
  }

  // The coordinate in elements of one in [-1, 1].
  double denormalized(double normalized) const {
    const auto n = static_cast<double>(extent);
    return align_corners ? (normalized + 1) / 2 * (n - 1) : ((normalized + 1) * n - 1) / 2;
  }

  // A coordinate outside the image brought back by reflection; taps at the border are brought back one by
  // one. One beyond all elements that take part stays beyond, at a distance that integers hold.
  double padded(double at) const {
    constexpr double kBeyond = 4;
    if (padding == Padding::Reflection && (at < low() || at > high())) at = reflect(at);
    return std::clamp(at, -kBeyond, static_cast<double>(extent) + kBeyond);
  }

  // The element at an index, or -1 for one in the zeros.
  std::int64_t element(std::int64_t index) const {
    if (index >= 0 && index < extent) return index;
    switch (padding) {
      case Padding::Zeros:
        return -1;
      case Padding::Border:
        return std::clamp<std::int64_t>(index, 0, extent - 1);
      case Padding::Reflection:
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(reflect(static_cast<double>(index))), 0,
                                        extent - 1);
    }
    return -1;
  }
};

// Elements along one axis that make a sample, with their weights.
struct Taps {
  std::array<std::int64_t, 4> elements;
  std::array<double, 4> weights;
  std::size_t count = 0;
};

// Weights of the four neighbours of a point at `t` in [0, 1) behind the second, by Keys' cubic with a =
// -0.75.
std::array<double, 4> cubic_weights(double t) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

enum class Mode : std::uint8_t { Nearest, Linear, Cubic };

Taps taps_at(const SampledAxis& axis, double position, Mode mode) {
  const double at = axis.padded(position);
  Taps taps;
  // NaN: the first element, with weights that are NaN where there are any.
  const double below = std::isnan(at) ? 0 : std::floor(at);
  const auto first = static_cast<std::int64_t>(below);
  const auto add = [&](std::int64_t index, double weight) {
    taps.elements[taps.count] = axis.element(index);
    taps.weights[taps.count++] = weight;
  };
  switch (mode) {
    case Mode::Nearest:
      add(std::isnan(at) ? -1 : first, 1);
      break;
    case Mode::Linear:
      add(first, 1 - (at - below));
      add(first + 1, at - below);
      break;
    case Mode::Cubic: {
      const std::array<double, 4> weights = cubic_weights(at - below);
      for (std::size_t i = 0; i < weights.size(); ++i)
        add(first - 1 + static_cast<std::int64_t>(i), weights[i]);
      break;
    }
  }
  return taps;
}

// Calls visit(offset in the plane, weight) for the elements of a sample, with offset -1 in the zeros.
template <typename Visit>
void over_taps(const std::vector<SampledAxis>& axes, const std::vector<Taps>& taps, Visit visit) {
  std::vector<std::size_t> index(axes.size());
  while (true) {
    std::int64_t offset = 0;
    double weight = 1;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::int64_t element = taps[k].elements[index[k]];
      offset = offset < 0 || element < 0 ? -1 : offset * axes[k].extent + element;
      weight *= taps[k].weights[index[k]];
    }
    visit(offset, weight);
    std::size_t next = axes.size();  // the axis after the one to advance
    while (next > 0 && ++index[next - 1] == taps[next - 1].count) index[--next] = 0;
    if (next == 0) return;
  }
}

// The image and the grid over it.
struct Sampling {
  std::vector<SampledAxis> axes;
  Mode mode;
  std::int64_t batch, channels, plane, points;
  bool single;  // the grid has less than f64
  std::vector<double> grid;

  // Coordinates are rounded as the grid is, so that ties of `nearest` are those of exact arithmetic.
  double position(std::size_t axis, double normalized) const {
    const double exact = axes[axis].denormalized(normalized);
    const double at = single ? static_cast<double>(static_cast<float>(exact)) : exact;
    return mode == Mode::Nearest ? std::nearbyint(at) : at;
  }

  // Calls visit(batch, point, taps) for every point.
  template <typename Visit>
  void for_points(const Call& call, Visit visit) const {
    const std::size_t rank = axes.size();
    const std::int64_t cost = channels * (std::int64_t{1} << std::min<std::size_t>(2 * rank, 20));
    for_range(call, batch * points, cost, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Taps> taps(rank);
      for (std::int64_t i = begin; i < end; ++i) {
        // The grid has x first, the axes have it last.
        const double* point = grid.data() + i * static_cast<std::int64_t>(rank);
        for (std::size_t k = 0; k < rank; ++k)
          taps[k] = taps_at(axes[k], position(k, point[rank - 1 - k]), mode);
        visit(i / points, i % points, taps);
      }
    });
  }
};

Sampling describe(const Call& call, Extents& result) {
  const Tensor &x = call.input(0), &grid = call.input(1);
  expect_rank("X", x, 3);
  const std::size_t rank = x.extents().size() - 2;
  if (grid.rank() != x.rank() || grid.extents()[0] != x.extents()[0] ||
      grid.extents().back() != static_cast<std::int64_t>(rank)) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "the grid for X of {} must have as many axes, the same batch and {} coordinates, got {}",
                 to_string(x.extents()), rank, to_string(grid.extents()));
  }
  const std::string &mode = text(call.node, "mode"), &padding = text(call.node, "padding_mode");
  Sampling sampling{.axes = {},
                    .mode = mode == "nearest"  ? Mode::Nearest
                            : mode == "linear" ? Mode::Linear
                                               : Mode::Cubic,
                    .batch = x.extents()[0],
                    .channels = x.extents()[1],
                    .plane = product(x.extents(), 2, rank + 2),
                    .points = product(grid.extents(), 1, rank + 1),
                    .single = grid.dtype() != DType::F64,
                    .grid = to_numbers(grid)};
  for (std::size_t k = 0; k < rank; ++k) {
    sampling.axes.push_back({x.extents()[2 + k], integer(call.node, "align_corners") != 0,
                             padding == "zeros"    ? Padding::Zeros
                             : padding == "border" ? Padding::Border
                                                   : Padding::Reflection});
  }
  result = {sampling.batch, sampling.channels};
  result.insert(result.end(), grid.extents().begin() + 1, grid.extents().end() - 1);
  if (sampling.plane == 0 && sampling.points > 0) {
    throw_caller(ErrorCode::ShapeMismatch, "X of {} has no elements to sample", to_string(x.extents()));
  }
  return sampling;
}

void sample_nearest(Call& call, const Sampling& sampling, const Tensor& x, Tensor& y) {
  dispatch_storage(x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    sampling.for_points(call, [&](std::int64_t batch, std::int64_t point, const std::vector<Taps>& taps) {
      over_taps(sampling.axes, taps, [&](std::int64_t offset, double) {
        for (std::int64_t c = batch * sampling.channels; c < (batch + 1) * sampling.channels; ++c) {
          to[c * sampling.points + point] = offset < 0 ? T() : from[c * sampling.plane + offset];
        }
      });
    });
  });
}

// `parts`: numbers of one element, 2 for complex ones.
template <typename T>
void sample_weighted(Call& call, const Sampling& sampling, const T* from, T* to, std::int64_t parts) {
  sampling.for_points(call, [&](std::int64_t batch, std::int64_t point, const std::vector<Taps>& taps) {
    std::vector<double> sums(static_cast<std::size_t>(sampling.channels * parts));
    over_taps(sampling.axes, taps, [&](std::int64_t offset, double weight) {
      const T* plane = from + batch * sampling.channels * sampling.plane * parts;
      for (std::int64_t c = 0; c < sampling.channels; ++c) {
        for (std::int64_t part = 0; part < parts; ++part) {
          const double value =
              offset < 0 ? 0 : convert<double>(plane[(c * sampling.plane + offset) * parts + part]);
          sums[static_cast<std::size_t>(c * parts + part)] += weight * value;
        }
      }
    });
    for (std::int64_t c = 0; c < sampling.channels; ++c) {
      T* element = to + ((batch * sampling.channels + c) * sampling.points + point) * parts;
      for (std::int64_t part = 0; part < parts; ++part) {
        element[part] = convert<T>(sums[static_cast<std::size_t>(c * parts + part)]);
      }
    }
  });
}

}  // namespace

void affine_grid(Call& call) {
  const Tensor& theta = call.input(0);
  if (computed_in_f32(call, theta.dtype(), affine_grid)) return;
  const std::vector<std::int64_t> size = call.input(1).to_integers();
  if (size.size() != 4 && size.size() != 5) {
    throw_caller(ErrorCode::ShapeMismatch, "size must have 4 or 5 elements, got {}", size.size());
  }
  const std::size_t rank = size.size() - 2;
  const auto columns = static_cast<std::int64_t>(rank) + 1;
  expect_extents("theta", theta, {size[0], columns - 1, columns});
  Extents extents = {size[0]};
  extents.insert(extents.end(), size.begin() + 2, size.end());
  extents.push_back(columns - 1);
  expect_bounded(extents, "the grid");
  const bool align = integer(call.node, "align_corners") != 0;
  const std::int64_t points = product(extents, 1, rank + 1);
  Tensor& grid = call.output(0, theta.dtype(), extents);
  dispatch(WideFloats{}, theta.dtype(), [&]<typename T>() {
    const T* from = theta.as<T>().data();
    T* to = grid.as_mutable<T>().data();
    for_range(call, size[0] * points, 4 * columns * columns, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> position(rank + 1, 1.0);  // x first, and 1 for the translation
      for (std::int64_t i = begin; i < end; ++i) {
        std::int64_t rest = i % points;
        for (std::size_t k = 0; k < rank; ++k) {
          const std::int64_t extent = extents[rank - k];
          position[k] = normalized_position(rest % extent, extent, align);
          rest /= extent;
        }
        const T* matrix = from + i / points * (columns - 1) * columns;
        for (std::int64_t row = 0; row + 1 < columns; ++row) {
          double sum = 0;
          for (std::int64_t k = 0; k < columns; ++k) {
            sum += static_cast<double>(matrix[row * columns + k]) * position[static_cast<std::size_t>(k)];
          }
          to[i * (columns - 1) + row] = static_cast<T>(sum);
        }
      }
    });
  });
}

void grid_sample(Call& call) {
  const Tensor& x = call.input(0);
  Extents extents;
  const Sampling sampling = describe(call, extents);
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  if (sampling.mode == Mode::Nearest) return sample_nearest(call, sampling, x, y);
  if (x.dtype() == DType::C64 || x.dtype() == DType::C128) {
    const auto parts = [&]<typename T>(T) {
      sample_weighted(call, sampling, reinterpret_cast<const T*>(x.data()),
                      reinterpret_cast<T*>(y.mutable_data()), 2);
    };
    return x.dtype() == DType::C64 ? parts(float()) : parts(double());
  }
  dispatch(NumbersAndBooleans{}, x.dtype(), [&]<typename T>() {
    sample_weighted(call, sampling, x.as<T>().data(), y.as_mutable<T>().data(), 1);
  });
}

}  // namespace kiln::reference
