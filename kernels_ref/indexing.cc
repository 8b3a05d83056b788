// Operators that give or order positions. Ties go to the lower index; NaN orders above every number.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// A tensor seen as [outer, extent, inner] round one axis.
struct AxisView {
  std::int64_t outer, extent, inner;
};
AxisView around(const Tensor& tensor, std::size_t axis) {
  const Extents& e = tensor.extents();
  return {product(e, 0, axis), e[axis], product(e, axis + 1, e.size())};
}

// a before b when the greatest come first.
template <typename T>
bool greater_first(T a, T b) {
  if (is_nan_element(a) || is_nan_element(b)) return is_nan_element(a) && !is_nan_element(b);
  return a > b;
}

// `better(a, b)`: a replaces b. NaN, once met, is the answer.
template <typename Better>
void arg_reduce(Call& call, Better better) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), std::max<std::int64_t>(x.rank(), 1));
  const Tensor seen = x.rank() == 0 ? x.reshaped({1}) : x;
  const AxisView view = around(seen, axis);
  const bool last = integer(call.node, "select_last_index") != 0;
  Extents extents = x.extents();
  if (x.rank() > 0) {
    if (integer(call.node, "keepdims") != 0)
      extents[axis] = 1;
    else
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  Tensor& y = call.output(0, DType::I64, std::move(extents));
  if (view.extent == 0 && y.elements() > 0) {
    throw_caller(ErrorCode::ShapeMismatch, "there is no extreme element along the empty axis {}", axis);
  }
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    std::int64_t* to = y.as_mutable<std::int64_t>().data();
    for_range(call, view.outer * view.inner, view.extent, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* line = from + row / view.inner * view.extent * view.inner + row % view.inner;
        auto best = static_cast<Compute<T>>(line[0]);
        std::int64_t best_index = 0;
        for (std::int64_t i = 1; i < view.extent; ++i) {
          const auto value = static_cast<Compute<T>>(line[i * view.inner]);
          const bool ends_search = is_nan_element(best);
          if (!ends_search && (is_nan_element(value) || better(value, best) || (last && value == best))) {
            best = value;
            best_index = i;
          }
        }
        to[row] = best_index;
      }
    });
  });
}

template <typename Combine>
void scan(Call& call, Combine combine, int identity) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(to_integer(call.input(1)), x.rank());
  const bool exclusive = integer(call.node, "exclusive") != 0, reverse = integer(call.node, "reverse") != 0;
  const AxisView view = around(x, axis);
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch(decltype(join(WideFloats{}, Integers{})){}, x.dtype(), [&]<typename T>() {
    // An f32 scan adds in f64, which only improves it.
    using Accumulator = std::conditional_t<std::is_same_v<T, float>, double, T>;
    for_range(call, view.outer * view.inner, view.extent, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t base = row / view.inner * view.extent * view.inner + row % view.inner;
        auto total = static_cast<Accumulator>(identity);
        for (std::int64_t i = 0; i < view.extent; ++i) {
          const std::int64_t at = base + (reverse ? view.extent - 1 - i : i) * view.inner;
          const auto next = combine(total, static_cast<Accumulator>(x.as<T>().data()[at]));
          y.as_mutable<T>().data()[at] = static_cast<T>(exclusive ? total : next);
          total = next;
        }
      }
    });
  });
}

// A box as its two corners, whichever way the model gives it.
struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box read_box(const double* b, bool center) {
  if (center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

double intersection_over_union(const Box& a, const Box& b) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  const double both = height * width;
  const double either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

}  // namespace

void arg_max(Call& call) {
  arg_reduce(call, [](auto a, auto b) { return a > b; });
}
void arg_min(Call& call) {
  arg_reduce(call, [](auto a, auto b) { return a < b; });
}

void cum_sum(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), cum_sum)) return;
  scan(call, []<typename T>(T a, T b) { return sum_of(a, b); }, 0);
}
void cum_prod(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), cum_prod)) return;
  scan(call, []<typename T>(T a, T b) { return product_of(a, b); }, 1);
}

void top_k(Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const AxisView view = around(x, axis);
  const std::int64_t k = to_integer(call.input(1));
  if (k < 0 || k > view.extent) {
    throw_caller(ErrorCode::InvalidArgument, "k must be 0 to {}, got {}", view.extent, k);
  }
  const bool largest = integer(call.node, "largest") != 0;
  Extents extents = x.extents();
  extents[axis] = k;
  Tensor values = call.output(0, x.dtype(), extents), indices = call.output(1, DType::I64, extents);
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    for_range(call, view.outer * view.inner, view.extent * 8, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(view.extent));
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t outer = row / view.inner, inner = row % view.inner;
        const T* line = x.as<T>().data() + outer * view.extent * view.inner + inner;
        const auto value = [&](std::int64_t i) { return static_cast<Compute<T>>(line[i * view.inner]); };
        std::iota(order.begin(), order.end(), 0);
        const auto first = [&](std::int64_t i, std::int64_t j) {
          const auto a = value(i), b = value(j);
          if (largest ? greater_first(a, b) : greater_first(b, a)) return true;
          if (largest ? greater_first(b, a) : greater_first(a, b)) return false;
          return i < j;
        };
        std::partial_sort(order.begin(), order.begin() + k, order.end(), first);
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t at = (outer * k + i) * view.inner + inner,
                             chosen = order[static_cast<std::size_t>(i)];
          values.as_mutable<T>().data()[at] = line[chosen * view.inner];
          indices.as_mutable<std::int64_t>().data()[at] = chosen;
        }
      }
    });
  });
}

void trilu(Call& call) {
  const Tensor& x = call.input(0);
  expect_rank("input", x, 2);
  const std::int64_t k = call.has_input(1) ? to_integer(call.input(1)) : 0;
  const bool upper = integer(call.node, "upper") != 0;
  const std::int64_t rows = x.extents()[x.extents().size() - 2], columns = x.extents().back();
  // Columns below `bound` of a row lie under the k-th diagonal (for lower: not above it).
  const auto bound = [&](std::int64_t row) {
    const auto diagonal = checked_add(row, upper ? k : std::min(k, INT64_MAX - 1) + 1);
    return std::clamp<std::int64_t>(diagonal.value_or(columns), 0, columns);
  };
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch_storage(x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for (std::int64_t row = 0; columns > 0 && row < x.elements() / columns; ++row) {
      const std::int64_t split = bound(row % rows);
      for (std::int64_t column = 0; column < columns; ++column, ++from, ++to) {
        *to = (column >= split) == upper ? *from : T{};
      }
    }
  });
}

void non_zero(Call& call) {
  const Tensor& x = call.input(0);
  std::vector<std::int64_t> found;
  const auto search = [&](auto is_zero, auto elements) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (!is_zero(elements[i])) found.push_back(static_cast<std::int64_t>(i));
    }
  };
  if (x.dtype() == DType::String) {
    search([](const std::string& s) { return s.empty(); }, x.as<std::string>());
  } else {
    dispatch(NumbersAndBooleans{}, x.dtype(), [&]<typename T>() {
      search([](T value) { return static_cast<Compute<T>>(value) == Compute<T>{0}; }, x.as<T>());
    });
  }
  // A scalar is taken as one element of rank 1.
  const Extents extents = x.rank() == 0 ? Extents{1} : x.extents();
  const auto count = static_cast<std::int64_t>(found.size());
  Tensor& y = call.output(0, DType::I64, {static_cast<std::int64_t>(extents.size()), count});
  std::int64_t* to = y.as_mutable<std::int64_t>().data();
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::int64_t rest = found[i];
    for (std::size_t axis = extents.size(); axis-- > 0; rest /= extents[axis]) {
      to[static_cast<std::int64_t>(axis) * count + static_cast<std::int64_t>(i)] = rest % extents[axis];
    }
  }
}

void non_max_suppression(Call& call) {
  const Tensor &boxes = call.input(0), &scores = call.input(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.extents()[2] != 4 ||
      boxes.extents()[0] != scores.extents()[0] || boxes.extents()[1] != scores.extents()[2]) {
    throw_caller(ErrorCode::ShapeMismatch, "boxes of {} and scores of {} do not fit",
                 to_string(boxes.extents()), to_string(scores.extents()));
  }
  const std::int64_t batches = boxes.extents()[0], count = boxes.extents()[1], classes = scores.extents()[1];
  const std::int64_t most = call.has_input(2) ? to_integer(call.input(2)) : 0;
  const double overlap = call.has_input(3) ? to_number(call.input(3)) : 0;
  const double threshold =
      call.has_input(4) ? to_number(call.input(4)) : -std::numeric_limits<double>::infinity();
  if (overlap < 0 || overlap > 1) {
    throw_caller(ErrorCode::InvalidArgument, "iou_threshold must be 0 to 1, got {}", overlap);
  }
  const bool center = integer(call.node, "center_point_box") != 0;
  const std::vector<double> corners = to_numbers(boxes), score = to_numbers(scores);
  std::vector<std::int64_t> selected;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t cls = 0; cls < classes; ++cls) {
      const double* line = score.data() + (batch * classes + cls) * count;
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i) {
        if (line[i] > threshold) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return line[a] > line[b]; });
      std::vector<Box> kept;
      for (const std::int64_t i : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const Box box = read_box(corners.data() + (batch * count + i) * 4, center);
        const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Box& other) {
          return intersection_over_union(box, other) > overlap;
        });
        if (covered) continue;
        kept.push_back(box);
        selected.insert(selected.end(), {batch, cls, i});
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(selected.size() / 3);
  std::copy(selected.begin(), selected.end(),
            call.output(0, DType::I64, {rows, 3}).as_mutable<std::int64_t>().begin());
}

}  // namespace kiln::reference
