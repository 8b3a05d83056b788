// Operators that place elements of their inputs elsewhere by a fixed index map.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/index_map.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/pieces.h"

namespace kiln::reference {
namespace {

// y = x, taken as a dense tensor of `extents`, with axes in the order `permutation`.
void copy_permuted(const Call& call, const Tensor& x, const Extents& extents,
                   const std::vector<std::size_t>& permutation, Tensor& y) {
  const Extents strides = dense_strides(extents);
  Nest<2> nest;
  for (const std::size_t axis : permutation) {
    nest.extents.push_back(extents[axis]);
    nest.strides[1].push_back(strides[axis]);
  }
  nest.strides[0] = dense_strides(nest.extents);
  copy_elements(call, x.dtype(), nest, y.mutable_data(), x.data());
}

// Extents [N, C, H, W] of an input whose depth and space swap blocks of `block`.
Extents blocked_extents(const Tensor& x, std::int64_t block) {
  if (x.rank() != 4) {
    throw_caller(ErrorCode::ShapeMismatch, "input must have rank 4, got {}", to_string(x.extents()));
  }
  if (block <= 0 || block > 1 << 20) {
    throw_caller(ErrorCode::InvalidArgument, "blocksize must be positive and sane, got {}", block);
  }
  return x.extents();
}

// How a Slice runs along one axis.
struct AxisSlice {
  std::int64_t start, count, step;
};

AxisSlice axis_slice(std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0) throw_caller(ErrorCode::InvalidArgument, "a slice step must not be 0");
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  start = std::clamp(start, std::min<std::int64_t>(low + (step > 0 ? 0 : 1), high), high);
  end = std::clamp(end, low, std::max(low, high));
  const std::int64_t count = std::max<std::int64_t>(0, ceil_divide(end - start, step));
  return {start, count, count > 1 ? step : 1};
}

Extents squeezed_extents(const Tensor& x, const Call& call) {
  std::vector<bool> drop(static_cast<std::size_t>(x.rank()));
  if (call.has_input(1)) {
    drop = axis_flags(call.input(1).to_integers(), x.rank());
  } else {
    for (std::size_t axis = 0; axis < drop.size(); ++axis) drop[axis] = x.extents()[axis] == 1;
  }
  Extents extents;
  for (std::size_t axis = 0; axis < drop.size(); ++axis) {
    if (!drop[axis]) {
      extents.push_back(x.extents()[axis]);
    } else if (x.extents()[axis] != 1) {
      throw_caller(ErrorCode::ShapeMismatch, "cannot squeeze axis {} of {}", axis, to_string(x.extents()));
    }
  }
  return extents;
}

// A -1 is what is left of the axes that are not copied.
Extents reshaped_extents(const Tensor& x, const std::vector<std::int64_t>& shape, bool allow_zero) {
  Extents extents, rest = x.extents();
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::int64_t extent = shape[axis];
    if (extent == 0 && !allow_zero) {
      if (axis >= x.extents().size()) {
        throw_caller(ErrorCode::ShapeMismatch, "0 at axis {} copies an extent that {} lacks", axis,
                     to_string(x.extents()));
      }
      extents.push_back(std::exchange(rest[axis], 1));
      continue;
    }
    if (extent == -1 && open < 0) {
      open = static_cast<std::ptrdiff_t>(axis);
      extent = 1;
    } else if (extent < 0) {
      throw_caller(ErrorCode::ShapeMismatch, "cannot reshape to {}", to_string(shape));
    }
    extents.push_back(extent);
    const auto next = checked_multiply(known, extent);
    if (!next) throw_caller(ErrorCode::LimitExceeded, "cannot reshape to {}", to_string(shape));
    known = *next;
  }
  if (open >= 0) {
    const std::int64_t left = element_count(rest);
    if (known == 0 || left % known != 0) {
      throw_caller(ErrorCode::ShapeMismatch, "cannot reshape {} to {}", to_string(x.extents()),
                   to_string(shape));
    }
    extents[static_cast<std::size_t>(open)] = left / known;
  }
  return extents;
}

std::int64_t padded_extent(std::int64_t extent, std::int64_t before, std::int64_t after,
                           const std::string& mode) {
  const auto with_before = checked_add(extent, before);
  const auto total = with_before ? checked_add(*with_before, after) : std::nullopt;
  if (!total || *total < 0) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot pad extent {} by {} and {}", extent, before, after);
  }
  if (mode != "constant" && extent == 0 && *total > 0) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot pad an empty axis in mode '{}'", mode);
  }
  return *total;
}

// For each output index along one axis of Pad, the input index that it copies, or -1 for the constant.
std::vector<std::int64_t> padded_indices(std::int64_t padded, std::int64_t extent, std::int64_t before,
                                         const std::string& mode) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(padded));
  for (std::int64_t i = 0; i < padded; ++i) {
    std::int64_t source = i - before;
    if (mode == "constant") {
      if (source < 0 || source >= extent) source = -1;
    } else if (mode == "edge") {
      source = std::clamp<std::int64_t>(source, 0, extent - 1);
    } else if (mode == "wrap") {
      source = floor_modulo(source, extent);
    } else if (extent == 1) {
      source = 0;
    } else {
      source = floor_modulo(source, 2 * (extent - 1));
      source = std::min(source, 2 * (extent - 1) - source);
    }
    indices[static_cast<std::size_t>(i)] = source;
  }
  return indices;
}

}  // namespace

void identity(Call& call) { call.output_view(0, call.input(0), call.input(0).extents()); }

void reshape(Call& call) {
  const Tensor& x = call.input(0);
  // Where shape arithmetic led to an extent of 0, its number no longer tells that from an axis to copy.
  if (x.elements() == 0 && !call.outputs.empty() && call.outputs[0].is_tensor())
    return call.output_view(0, x, call.outputs[0].tensor().extents());
  const bool allow_zero = integer(call.node, "allowzero") != 0;
  call.output_view(0, x, reshaped_extents(x, call.input(1).to_integers(), allow_zero));
}
void flatten(Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t attribute = integer(call.node, "axis");
  const std::size_t axis = attribute == x.rank()
                               ? x.extents().size()
                               : normalized_axis(attribute, std::max<std::int64_t>(x.rank(), 1));
  call.output_view(0, x, {product(x.extents(), 0, axis), product(x.extents(), axis, x.extents().size())});
}
void squeeze(Call& call) { call.output_view(0, call.input(0), squeezed_extents(call.input(0), call)); }
void unsqueeze(Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> axes = call.input(1).to_integers();
  const std::vector<bool> added = axis_flags(axes, x.rank() + static_cast<std::int64_t>(axes.size()));
  Extents extents;
  auto next = x.extents().begin();
  for (const bool add : added) extents.push_back(add ? 1 : *next++);
  call.output_view(0, x, std::move(extents));
}

void transpose(Call& call) {
  const Tensor& x = call.input(0);
  if (moved_as_bytes(call, x.dtype(), transpose)) return;
  std::vector<std::int64_t> permutation;
  if (has(call.node, "perm")) {
    const auto given = integers(call.node, "perm");
    permutation.assign(given.begin(), given.end());
  } else {
    for (std::int64_t axis = x.rank(); axis-- > 0;) permutation.push_back(axis);
  }
  if (static_cast<std::int64_t>(permutation.size()) != x.rank()) {
    throw_caller(ErrorCode::ShapeMismatch, "perm has {} axes for a tensor of rank {}", permutation.size(),
                 x.rank());
  }
  axis_flags(permutation, x.rank());
  std::vector<std::size_t> axes;
  Extents extents;
  for (const std::int64_t axis : permutation) {
    axes.push_back(normalized_axis(axis, x.rank()));
    extents.push_back(x.extents()[axes.back()]);
  }
  copy_permuted(call, x, x.extents(), axes, call.output(0, x.dtype(), std::move(extents)));
}

void expand(Call& call) {
  const Tensor& x = call.input(0);
  Tensor& y = call.output(0, x.dtype(), broadcast_extents(x.extents(), call.input(1).to_integers()));
  copy_elements(call, x.dtype(),
                {y.extents(), {dense_strides(y.extents()), broadcast_strides(x.extents(), y.extents())}},
                y.mutable_data(), x.data());
}

void tile(Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> repeats = call.input(1).to_integers();
  if (static_cast<std::int64_t>(repeats.size()) != x.rank()) {
    throw_caller(ErrorCode::ShapeMismatch, "{} repeats for a tensor of rank {}", repeats.size(), x.rank());
  }
  Extents extents;
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) {
    const auto extent = checked_multiply(repeats[axis], x.extents()[axis]);
    if (!extent || repeats[axis] < 0) {
      throw_caller(ErrorCode::InvalidArgument, "cannot repeat axis {} {} times", axis, repeats[axis]);
    }
    extents.push_back(*extent);
  }
  Tensor& y = call.output(0, x.dtype(), extents);
  const Extents to = dense_strides(extents), from = dense_strides(x.extents());
  // Each axis becomes two: which copy, and where in it.
  Nest<2> nest;
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) {
    nest.extents.insert(nest.extents.end(), {repeats[axis], x.extents()[axis]});
    nest.strides[0].insert(nest.strides[0].end(), {x.extents()[axis] * to[axis], to[axis]});
    nest.strides[1].insert(nest.strides[1].end(), {0, from[axis]});
  }
  copy_elements(call, x.dtype(), nest, y.mutable_data(), x.data());
}

void slice(Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> starts = call.input(1).to_integers(), ends = call.input(2).to_integers();
  std::vector<std::int64_t> axes = optional_integers(call, 3), steps = optional_integers(call, 4);
  if (!call.has_input(3)) {
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (!call.has_input(4)) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    throw_caller(ErrorCode::ShapeMismatch, "{} starts, {} ends, {} axes and {} steps", starts.size(),
                 ends.size(), axes.size(), steps.size());
  }
  axis_flags(axes, x.rank());
  Extents extents = x.extents(), strides = dense_strides(x.extents());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = normalized_axis(axes[i], x.rank());
    const AxisSlice along = axis_slice(extents[axis], starts[i], ends[i], steps[i]);
    if (along.count > 0) offset += along.start * strides[axis];
    extents[axis] = along.count;
    strides[axis] *= along.step;
  }
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  copy_elements(call, x.dtype(), {extents, {dense_strides(extents), strides}}, y.mutable_data(),
                x.data() + offset * element_bytes(x.dtype()));
}

void split(Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const std::int64_t extent = x.extents()[axis];
  const std::size_t count = call.node.outputs.size();
  std::vector<std::int64_t> sizes = optional_integers(call, 1);
  if (!call.has_input(1)) {
    // The last one has what is left, which may be too little for so many pieces.
    const std::int64_t piece = ceil_divide(extent, static_cast<std::int64_t>(count));
    sizes.assign(count, piece);
    sizes.back() = extent - piece * static_cast<std::int64_t>(count - 1);
  }
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > extent)
      throw_caller(ErrorCode::ShapeMismatch, "cannot split {} off {}", size, extent);
    total += size;
  }
  if (sizes.size() != count || total != extent) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot split extent {} into {} pieces of {}", extent, count,
                 to_string(sizes));
  }
  std::int64_t start = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (call.wants(k)) {
      Extents extents = x.extents();
      extents[axis] = sizes[k];
      copy_piece(call, x, axis, start, call.output(k, x.dtype(), std::move(extents)));
    }
    start += sizes[k];
  }
}

void concat(Call& call) {
  std::vector<Tensor> parts;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) parts.push_back(call.input(k));
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), parts[0].rank());
  Tensor& y = call.output(0, parts[0].dtype(), joined_extents(parts, axis));
  join_into(call, parts, axis, y);
}

void pad(Call& call) {
  const Tensor& x = call.input(0);
  if (moved_as_bytes(call, x.dtype(), pad)) return;
  const std::string& mode = text(call.node, "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    throw_caller(ErrorCode::InvalidArgument, "mode must be constant, reflect, edge or wrap, got '{}'", mode);
  }
  const std::vector<std::int64_t> pads = call.input(1).to_integers();
  std::vector<std::int64_t> axes = optional_integers(call, 3);
  if (!call.has_input(3)) {
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  }
  axis_flags(axes, x.rank());
  if (pads.size() != 2 * axes.size()) {
    throw_caller(ErrorCode::ShapeMismatch, "expected {} pads, got {}", 2 * axes.size(), pads.size());
  }
  std::vector<std::int64_t> before(x.extents().size()), after(x.extents().size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = normalized_axis(axes[i], x.rank());
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
  }
  Extents extents;
  for (std::size_t axis = 0; axis < before.size(); ++axis) {
    extents.push_back(padded_extent(x.extents()[axis], before[axis], after[axis], mode));
  }
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;  // whatever the other extents are
  std::vector<std::vector<std::int64_t>> indices;
  for (std::size_t axis = 0; axis < before.size(); ++axis) {
    indices.push_back(padded_indices(extents[axis], x.extents()[axis], before[axis], mode));
  }
  dispatch_storage(x.dtype(), [&]<typename T>() {
    T fill{};
    if (call.has_input(2)) {
      const Tensor& value = call.input(2);
      if (value.dtype() != x.dtype() || value.elements() != 1) {
        throw_caller(ErrorCode::InvalidArgument, "the constant must be one {}, got {} of {}", name(x.dtype()),
                     name(value.dtype()), to_string(value.extents()));
      }
      fill = value.as<T>()[0];
    }
    copy_mapped<T>(call, x, indices, fill, y);
  });
}

void depth_to_space(Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t block = integer(call.node, "blocksize");
  const Extents e = blocked_extents(x, block);
  if (e[1] % (block * block) != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "{} channels cannot be split into blocks of {}x{}", e[1], block,
                 block);
  }
  const std::int64_t depth = e[1] / (block * block);
  Tensor& y = call.output(0, x.dtype(), {e[0], depth, e[2] * block, e[3] * block});
  if (text(call.node, "mode") == "CRD") {
    copy_permuted(call, x, {e[0], depth, block, block, e[2], e[3]}, {0, 1, 4, 2, 5, 3}, y);
  } else {
    copy_permuted(call, x, {e[0], block, block, depth, e[2], e[3]}, {0, 3, 4, 1, 5, 2}, y);
  }
}
void space_to_depth(Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t block = integer(call.node, "blocksize");
  const Extents e = blocked_extents(x, block);
  if (e[2] % block != 0 || e[3] % block != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "{} cannot be split into blocks of {}x{}", to_string(e), block,
                 block);
  }
  Tensor& y = call.output(0, x.dtype(), {e[0], e[1] * block * block, e[2] / block, e[3] / block});
  copy_permuted(call, x, {e[0], e[1], e[2] / block, block, e[3] / block, block}, {0, 3, 5, 1, 2, 4}, y);
}

}  // namespace kiln::reference
