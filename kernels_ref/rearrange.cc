// Elements put elsewhere, or read as another type.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/index_map.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

// What is cropped or padded is halved, and an odd rest falls to the end.
void center_crop_pad(Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> wanted = call.input(1).to_integers();
  std::vector<std::int64_t> axes;
  if (has(call.node, "axes")) {
    const auto given = integers(call.node, "axes");
    axes.assign(given.begin(), given.end());
  } else {
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  }
  axis_flags(axes, x.rank());
  if (wanted.size() != axes.size()) {
    throw_caller(ErrorCode::ShapeMismatch, "shape must have {} elements, one for each axis, got {}",
                 axes.size(), wanted.size());
  }
  Extents extents = x.extents();
  for (std::size_t i = 0; i < axes.size(); ++i) extents[normalized_axis(axes[i], x.rank())] = wanted[i];
  expect_bounded(extents, "the result");
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  std::vector<std::vector<std::int64_t>> indices;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const std::int64_t from = x.extents()[axis], to = extents[axis];
    const std::int64_t shift = to < from ? (from - to) / 2 : -((to - from) / 2);
    std::vector<std::int64_t>& sources = indices.emplace_back();
    for (std::int64_t i = 0; i < to; ++i)
      sources.push_back(i + shift >= 0 && i + shift < from ? i + shift : -1);
  }
  dispatch_storage(x.dtype(), [&]<typename T>() { copy_mapped<T>(call, x, indices, T(), y); });
}

void tensor_scatter(Call& call) {
  const Tensor &cache = call.input(0), &update = call.input(1);
  if (moved_as_bytes(call, cache.dtype(), tensor_scatter)) return;
  expect_rank("past_cache", cache, 2);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), cache.rank());
  if (axis == 0) throw_caller(ErrorCode::InvalidArgument, "axis is that of the batch, expected another");
  Extents expected = cache.extents();
  if (update.rank() == cache.rank()) expected[axis] = update.extents()[axis];
  expect_extents("update", update, expected);
  const std::int64_t longest = cache.extents()[axis], count = update.extents()[axis];
  if (count > longest) {
    throw_caller(ErrorCode::ShapeMismatch, "update has {} positions, expected at most the cache's {}", count,
                 longest);
  }
  Tensor& present = call.output(0, cache.dtype(), cache.extents());
  if (present.elements() == 0) return;
  const bool circular = text(call.node, "mode") == "circular";
  const std::int64_t batch = cache.extents()[0];
  std::vector<std::int64_t> starts(static_cast<std::size_t>(batch));
  if (call.has_input(2)) {
    expect_extents("write_indices", call.input(2), {batch});
    starts = call.input(2).to_integers();
  }
  for (std::int64_t& start : starts) {
    if (circular) start = floor_modulo(start, longest);
    if (!circular && (start < 0 || start > longest - count)) {
      throw_caller(ErrorCode::IndexOutOfRange,
                   "{} positions from write index {} on lie outside a cache of {}", count, start, longest);
    }
  }
  const std::int64_t outer = product(cache.extents(), 1, axis);
  const std::int64_t inner = product(cache.extents(), axis + 1, cache.extents().size());
  dispatch_storage(cache.dtype(), [&]<typename T>() {
    T* to = present.as_mutable<T>().data();
    const T* from = update.as<T>().data();
    if (static_cast<const void*>(to) != cache.data()) {
      std::copy_n(cache.as<T>().data(), cache.elements(), to);
    }
    for (std::int64_t row = 0; row < batch * outer; ++row) {
      const std::int64_t start = starts[static_cast<std::size_t>(row / outer)];
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = (start + i) % longest;
        std::copy_n(from + (row * count + i) * inner, inner, to + (row * longest + position) * inner);
      }
    }
  });
}

// In the f64 run an input that was widened is first what the graph says that it is, and so is the result.
void bit_cast(Call& call) {
  const auto from = static_cast<DType>(integer(call.node, "from"));
  const auto to = static_cast<DType>(integer(call.node, "to"));
  const Tensor& given = call.input(0);
  if (given.dtype() != call.promoted(from)) {
    throw_caller(ErrorCode::TypeMismatch, "expected elements of {}, got {}", name(call.promoted(from)),
                 name(given.dtype()));
  }
  const Tensor x = converted(call, given, from);
  const auto bytes = std::make_shared<Tensor>(x);
  const Tensor result(to, x.extents(), bytes, bytes->data());
  const Tensor promoted = converted(call, result, call.promoted(to));
  call.output_view(0, promoted, promoted.extents());
}

}  // namespace kiln::reference
