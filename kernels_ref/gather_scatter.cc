// Operators that read or write where an index tensor says. An index counts from the back if negative and is
// an Error (index_out_of_range) outside the axis.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

std::int64_t checked_index(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent) {
    throw_caller(ErrorCode::IndexOutOfRange, "index {} is outside an axis of extent {}", index, extent);
  }
  return index < 0 ? index + extent : index;
}

std::vector<std::int64_t> checked_indices(const Tensor& indices, std::int64_t extent) {
  std::vector<std::int64_t> result = indices.to_integers();
  for (std::int64_t& index : result) index = checked_index(index, extent);
  return result;
}

// Offsets in elements of the blocks that the rows of an index tensor [..., depth] name in a tensor of
// `extents`, from axis `first` on.
std::vector<std::int64_t> block_offsets(const Tensor& indices, const Extents& extents, std::size_t first,
                                        std::size_t depth) {
  const Extents strides = dense_strides(extents);
  const std::vector<std::int64_t> values = indices.to_integers();
  const std::int64_t rows = product(indices.extents(), 0, indices.extents().size() - 1);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows));
  auto value = values.begin();
  for (std::int64_t& offset : offsets) {
    for (std::size_t k = 0; k < depth; ++k)
      offset += checked_index(*value++, extents[first + k]) * strides[first + k];
  }
  return offsets;
}

void expect_same_dtype(const Tensor& data, const Tensor& updates) {
  if (data.dtype() != updates.dtype()) {
    throw_caller(ErrorCode::TypeMismatch, "cannot write {} into {}", name(updates.dtype()),
                 name(data.dtype()));
  }
}

// Calls visitor.operator()<T>(combine), where combine(old, update) is the new element.
template <typename Visitor>
void dispatch_reduction(const std::string& reduction, DType dtype, Visitor&& visitor) {
  if (reduction == "none") {
    dispatch_storage(dtype, [&]<typename T>() {
      visitor.template operator()<T>([](const T&, const T& update) { return update; });
    });
    return;
  }
  const auto with = [&](auto function) {
    dispatch(Numbers{}, dtype, [&]<typename T>() {
      visitor.template operator()<T>([=](const T& old, const T& update) {
        return T(function(static_cast<Compute<T>>(old), static_cast<Compute<T>>(update)));
      });
    });
  };
  if (reduction == "add")
    with([]<typename T>(T a, T b) { return sum_of(a, b); });
  else if (reduction == "mul")
    with([]<typename T>(T a, T b) { return product_of(a, b); });
  else if (reduction == "max")
    with([]<typename T>(T a, T b) { return larger(a, b); });
  else if (reduction == "min")
    with([]<typename T>(T a, T b) { return smaller(a, b); });
  else
    throw_caller(ErrorCode::InvalidArgument, "reduction must be none, add, mul, max or min, got '{}'",
                 reduction);
}

// The output, filled with input 0.
Tensor& copy_of_data(Call& call) {
  const Tensor& data = call.input(0);
  Tensor& y = call.output(0, data.dtype(), data.extents());
  if (y.data() != data.data()) {
    const Extents strides = dense_strides(data.extents());
    copy_elements(call, data.dtype(), {data.extents(), {strides, strides}}, y.mutable_data(), data.data());
  }
  return y;
}

}  // namespace

void gather(Call& call) {
  const Tensor &data = call.input(0), &indices = call.input(1);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), data.rank());
  const Extents& from = data.extents();
  Extents extents(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
  extents.insert(extents.end(), indices.extents().begin(), indices.extents().end());
  extents.insert(extents.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  const std::int64_t inner = product(from, axis + 1, from.size()), count = indices.elements();
  Tensor& y = call.output(0, data.dtype(), std::move(extents));
  if (y.elements() == 0) return;
  const std::vector<std::int64_t> chosen = checked_indices(indices, from[axis]);
  dispatch_storage(data.dtype(), [&]<typename T>() {
    const T* source = data.as<T>().data();
    T* target = y.as_mutable<T>().data();
    for_range(call, product(from, 0, axis) * count, inner, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t index = chosen[static_cast<std::size_t>(row % count)];
        const T* block = source + (row / count * from[axis] + index) * inner;
        std::copy(block, block + inner, target + row * inner);
      }
    });
  });
}

void gather_elements(Call& call) {
  const Tensor &data = call.input(0), &indices = call.input(1);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), data.rank());
  Extents at_most = data.extents();
  if (indices.rank() == data.rank()) at_most[axis] = indices.extents()[axis];
  for (std::size_t k = 0; k < at_most.size() && indices.rank() == data.rank(); ++k) {
    at_most[k] = std::min(at_most[k], indices.extents()[k]);
  }
  expect_extents("indices", indices, at_most);
  const std::vector<std::int64_t> chosen = checked_indices(indices, data.extents()[axis]);
  Extents strides = dense_strides(data.extents());
  const std::int64_t along = std::exchange(strides[axis], 0);
  Tensor& y = call.output(0, data.dtype(), indices.extents());
  const Nest<2> nest = coalesce(Nest<2>{indices.extents(), {dense_strides(indices.extents()), strides}});
  dispatch_storage(data.dtype(), [&]<typename T>() {
    const T* source = data.as<T>().data();
    T* target = y.as_mutable<T>().data();
    walk_all(call, nest, 2, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = offsets[0] + i * nest.strides[0].back();
        target[position] = source[offsets[1] + i * nest.strides[1].back() +
                                  chosen[static_cast<std::size_t>(position)] * along];
      }
    });
  });
}

void gather_nd(Call& call) {
  const Tensor &data = call.input(0), &indices = call.input(1);
  const Extents& from = data.extents();
  const std::int64_t batch_dims = integer(call.node, "batch_dims");
  expect_rank("data", data, 1);
  expect_rank("indices", indices, 1);
  const std::int64_t depth = indices.extents().back();
  if (batch_dims < 0 || batch_dims >= indices.rank() || batch_dims + depth > data.rank()) {
    throw_caller(ErrorCode::ShapeMismatch, "indices of {} with {} batch axes do not fit data of {}",
                 to_string(indices.extents()), batch_dims, to_string(from));
  }
  const auto batches = static_cast<std::size_t>(batch_dims), used = static_cast<std::size_t>(depth);
  if (!std::equal(from.begin(), from.begin() + batch_dims, indices.extents().begin())) {
    throw_caller(ErrorCode::ShapeMismatch, "data of {} and indices of {} differ in their {} batch axes",
                 to_string(from), to_string(indices.extents()), batch_dims);
  }
  Extents extents(indices.extents().begin(), indices.extents().end() - 1);
  extents.insert(extents.end(), from.begin() + batch_dims + depth, from.end());
  Tensor& y = call.output(0, data.dtype(), std::move(extents));
  if (y.elements() == 0) return;
  const std::vector<std::int64_t> offsets = block_offsets(indices, from, batches, used);
  const std::int64_t inner = product(from, batches + used, from.size());
  const std::int64_t batch_size = product(from, batches, from.size());
  const std::int64_t rows_per_batch = product(indices.extents(), batches, indices.extents().size() - 1);
  dispatch_storage(data.dtype(), [&]<typename T>() {
    const T* source = data.as<T>().data();
    T* target = y.as_mutable<T>().data();
    for (std::size_t row = 0; row < offsets.size(); ++row) {
      const T* block = source + static_cast<std::int64_t>(row) / rows_per_batch * batch_size + offsets[row];
      target = std::copy(block, block + inner, target);
    }
  });
}

void scatter_elements(Call& call) {
  const Tensor &data = call.input(0), &indices = call.input(1), &updates = call.input(2);
  expect_same_dtype(data, updates);
  expect_extents("updates", updates, indices.extents());
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), data.rank());
  for (std::size_t k = 0; k < data.extents().size(); ++k) {
    if (indices.rank() != data.rank() || (k != axis && indices.extents()[k] > data.extents()[k])) {
      throw_caller(ErrorCode::ShapeMismatch, "indices of {} do not fit data of {}",
                   to_string(indices.extents()), to_string(data.extents()));
    }
  }
  const std::vector<std::int64_t> chosen = checked_indices(indices, data.extents()[axis]);
  Extents strides = dense_strides(data.extents());
  const std::int64_t along = std::exchange(strides[axis], 0);
  const Nest<2> nest = coalesce(Nest<2>{indices.extents(), {dense_strides(indices.extents()), strides}});
  Tensor& y = copy_of_data(call);
  dispatch_reduction(text(call.node, "reduction"), data.dtype(), [&]<typename T>(auto combine) {
    const T* source = updates.as<T>().data();
    T* target = y.as_mutable<T>().data();
    walk(nest, 0, indices.elements(), [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = offsets[0] + i * nest.strides[0].back();
        T& element = target[offsets[1] + i * nest.strides[1].back() +
                            chosen[static_cast<std::size_t>(position)] * along];
        element = combine(element, source[position]);
      }
    });
  });
}

void scatter_nd(Call& call) {
  const Tensor &data = call.input(0), &indices = call.input(1), &updates = call.input(2);
  expect_same_dtype(data, updates);
  expect_rank("indices", indices, 1);
  const std::int64_t depth = indices.extents().back();
  if (depth > data.rank()) {
    throw_caller(ErrorCode::ShapeMismatch, "indices of {} do not fit data of {}",
                 to_string(indices.extents()), to_string(data.extents()));
  }
  Extents expected(indices.extents().begin(), indices.extents().end() - 1);
  expected.insert(expected.end(), data.extents().begin() + depth, data.extents().end());
  expect_extents("updates", updates, expected);
  Tensor& y = copy_of_data(call);
  if (updates.elements() == 0) return;
  const std::vector<std::int64_t> offsets =
      block_offsets(indices, data.extents(), 0, static_cast<std::size_t>(depth));
  const std::int64_t inner = product(data.extents(), static_cast<std::size_t>(depth), data.extents().size());
  dispatch_reduction(text(call.node, "reduction"), data.dtype(), [&]<typename T>(auto combine) {
    const T* source = updates.as<T>().data();
    T* target = y.as_mutable<T>().data();
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < inner; ++i) target[offset + i] = combine(target[offset + i], *source++);
    }
  });
}

void compress(Call& call) {
  const Tensor& x = call.input(0);
  const auto condition = call.input(1).as<Boolean>();
  const bool flat = !has(call.node, "axis");
  const Extents from = flat ? Extents{x.elements()} : x.extents();
  const std::size_t axis = flat ? 0 : normalized_axis(integer(call.node, "axis"), x.rank());
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i]) chosen.push_back(checked_index(static_cast<std::int64_t>(i), from[axis]));
  }
  Extents extents = from;
  extents[axis] = static_cast<std::int64_t>(chosen.size());
  const std::int64_t outer = product(from, 0, axis), inner = product(from, axis + 1, from.size());
  Tensor& y = call.output(0, x.dtype(), std::move(extents));
  dispatch_storage(x.dtype(), [&]<typename T>() {
    T* target = y.as_mutable<T>().data();
    for (std::int64_t row = 0; row < outer; ++row) {
      for (const std::int64_t index : chosen) {
        const T* block = x.as<T>().data() + (row * from[axis] + index) * inner;
        target = std::copy(block, block + inner, target);
      }
    }
  });
}

void one_hot(Call& call) {
  const Tensor &indices = call.input(0), &values = call.input(2);
  const auto depth = convert<std::int64_t>(to_number(call.input(1)));
  if (depth < 0) throw_caller(ErrorCode::InvalidArgument, "depth must not be negative, got {}", depth);
  expect_extents("values", values, {2});
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), indices.rank() + 1);
  Extents extents = indices.extents();
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  const Tensor integers = converted(call, indices, DType::I64);
  const std::int64_t inner = product(extents, axis + 1, extents.size());
  Tensor& y = call.output(0, values.dtype(), std::move(extents));
  dispatch_storage(values.dtype(), [&]<typename T>() {
    const T off = values.as<T>()[0], on = values.as<T>()[1];
    T* target = y.as_mutable<T>().data();
    std::fill_n(target, y.elements(), off);
    for (std::int64_t i = 0; i < indices.elements(); ++i) {
      std::int64_t index = integers.as<std::int64_t>()[static_cast<std::size_t>(i)];
      if (index < 0) index += depth;
      // An index outside the depth leaves its row off.
      if (index >= 0 && index < depth) target[(i / inner * depth + index) * inner + i % inner] = on;
    }
  });
}

void reverse_sequence(Call& call) {
  const Tensor& x = call.input(0);
  expect_rank("input", x, 2);
  const std::size_t batch_axis = normalized_axis(integer(call.node, "batch_axis"), x.rank());
  const std::size_t time_axis = normalized_axis(integer(call.node, "time_axis"), x.rank());
  if (batch_axis + time_axis != 1) {
    throw_caller(ErrorCode::InvalidArgument, "batch_axis and time_axis must be 0 and 1, got {} and {}",
                 batch_axis, time_axis);
  }
  const std::int64_t batch = x.extents()[batch_axis], time = x.extents()[time_axis];
  expect_extents("sequence_lens", call.input(1), {batch});
  const std::vector<std::int64_t> lengths = call.input(1).to_integers();
  const std::int64_t inner = product(x.extents(), 2, x.extents().size());
  Tensor& y = call.output(0, x.dtype(), x.extents());
  dispatch_storage(x.dtype(), [&]<typename T>() {
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t length = lengths[static_cast<std::size_t>(b)];
      if (length < 0 || length > time) {
        throw_caller(ErrorCode::IndexOutOfRange, "sequence length {} is outside 0 to {}", length, time);
      }
      for (std::int64_t t = 0; t < time; ++t) {
        const std::int64_t source = t < length ? length - 1 - t : t;
        const auto row = [&](std::int64_t at) {
          return (batch_axis == 0 ? b * time + at : at * batch + b) * inner;
        };
        const T* block = x.as<T>().data() + row(source);
        std::copy(block, block + inner, y.as_mutable<T>().data() + row(t));
      }
    }
  });
}

}  // namespace kiln::reference
