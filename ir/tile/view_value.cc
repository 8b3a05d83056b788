#include "ir/tile/view_value.h"

#include <algorithm>
#include <cstring>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/tile/primitives.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

// Index arithmetic that stays outside every view instead of wrapping back into one.
constexpr std::int64_t kFarAway = INT64_MIN / 2;
std::int64_t plus(std::int64_t a, std::int64_t b) { return checked_add(a, b).value_or(kFarAway); }
std::int64_t times(std::int64_t a, std::int64_t b) { return checked_multiply(a, b).value_or(kFarAway); }

std::size_t element_size(DType dtype) { return static_cast<std::size_t>(bits(dtype)) / 8; }

// Outputs of a window along an axis.
std::int64_t window_extent(std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                           std::int64_t dilation) {
  return std::max<std::int64_t>(0, floor_divide(plus(padded, -(dilation * (kernel - 1) + 1)), stride) + 1);
}

// Where position i of a padded axis lies in a source axis of extent n > 0.
std::int64_t unpad(PadMode mode, std::int64_t i, std::int64_t n) {
  switch (mode) {
    case PadMode::Constant:
      return i;
    case PadMode::Edge:
      return std::clamp<std::int64_t>(i, 0, n - 1);
    case PadMode::Wrap:
      return floor_modulo(i, n);
    case PadMode::Reflect: {
      if (n == 1) return 0;
      const std::int64_t period = 2 * (n - 1);
      const std::int64_t phase = floor_modulo(i, period);
      return phase < n ? phase : period - phase;
    }
  }
  return i;
}

}  // namespace

ViewValue ViewValue::memory(DType element, std::vector<std::int64_t> extents,
                            std::vector<std::int64_t> strides, std::int64_t offset,
                            std::span<std::byte> bytes) {
  ViewValue view;
  view.element_ = element;
  view.extents_ = std::move(extents);
  view.numbers_ = std::move(strides);
  view.offset_ = offset;
  view.bytes_ = bytes;
  return view;
}

ViewValue ViewValue::derived(const Op& op, std::shared_ptr<const ViewValue> source,
                             std::shared_ptr<const ViewValue> other, std::span<const std::int64_t> indices) {
  const Attributes& attributes = op.attributes;
  const std::vector<std::int64_t>& from = source->extents_;
  const std::size_t rank = from.size();
  const auto axis = [&](std::size_t k) { return static_cast<std::size_t>(attributes.axes[k]); };
  const auto numbers = [&](std::size_t first, std::size_t count) {
    return std::vector<std::int64_t>(indices.begin() + static_cast<std::ptrdiff_t>(first),
                                     indices.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  ViewValue view;
  view.op_ = &op;
  view.element_ = source->element_;
  std::vector<std::int64_t>& to = view.extents_;
  switch (op.code) {
    case Opcode::SliceView:
      view.numbers_ = numbers(0, rank);
      to = numbers(rank, rank);
      break;
    case Opcode::TransposeView:
      for (const std::int64_t k : attributes.axes) to.push_back(from[static_cast<std::size_t>(k)]);
      break;
    case Opcode::BroadcastView:
      to = from;
      for (std::size_t k = 0; k < indices.size(); ++k) {
        to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis(k)), indices[k]);
      }
      break;
    case Opcode::MergeView: {
      const auto first = from.begin() + attributes.axes.front();
      const auto last = from.begin() + attributes.axes.back() + 1;
      to.assign(from.begin(), first);
      to.push_back(element_count(std::span(first, last)));
      to.insert(to.end(), last, from.end());
      break;
    }
    case Opcode::SplitView:
      to = from;
      to.erase(to.begin() + attributes.axes[0]);
      to.insert(to.begin() + attributes.axes[0], indices.begin(), indices.end());
      break;
    case Opcode::WindowView: {
      const std::size_t count = attributes.axes.size();
      view.numbers_ = numbers(0, count);
      to = from;
      for (std::size_t k = 0; k < count; ++k) {
        std::int64_t& extent = to[axis(k)];
        extent = window_extent(plus(extent, plus(indices[k], indices[count + k])), attributes.sizes[k],
                               attributes.strides[k], attributes.dilations[k]);
      }
      to.insert(to.begin() + attributes.axes.back() + 1, attributes.sizes.begin(), attributes.sizes.end());
      break;
    }
    case Opcode::PadView:
      view.numbers_ = numbers(0, rank);
      for (std::size_t k = 0; k < rank; ++k) {
        to.push_back(std::max<std::int64_t>(0, plus(from[k], plus(indices[k], indices[rank + k]))));
      }
      break;
    case Opcode::GatherView:
      to = from;
      to.erase(to.begin() + attributes.axes[0]);
      to.insert(to.begin() + attributes.axes[0], other->extents_.begin(), other->extents_.end());
      break;
    case Opcode::ConcatView:
      to = from;
      for (std::size_t k = 0; k < rank; ++k) {
        if (k == axis(0)) {
          to[k] = plus(to[k], other->extents_[k]);
        } else if (to[k] != other->extents_[k]) {
          throw_caller(ErrorCode::ShapeMismatch,
                       "concat_view of extents {} and {} on axis {}, expected equal ones", to[k],
                       other->extents_[k], k);
        }
      }
      break;
    default:
      throw_bug("{} does not make a view", name(op.code));
  }
  for (const std::int64_t extent : to) {
    if (extent < 0)
      throw_caller(ErrorCode::ShapeMismatch, "{} has the negative extent {}", name(op.code), extent);
  }
  view.source_ = std::move(source);
  view.other_ = std::move(other);
  return view;
}

bool ViewValue::contains(const ViewIndex& index) const {
  for (std::size_t axis = 0; axis < extents_.size(); ++axis) {
    if (index[axis] < 0 || index[axis] >= extents_[axis]) return false;
  }
  return true;
}

std::byte* ViewValue::locate(const ViewIndex& index, const Literal*& outside) const {
  if (!contains(index)) return nullptr;
  if (op_ != nullptr) return locate_in_source(index, outside);
  std::int64_t at = offset_;
  for (std::size_t axis = 0; axis < extents_.size(); ++axis)
    at = plus(at, times(index[axis], numbers_[axis]));
  const std::size_t size = element_size(element_);
  if (at < 0 || at >= static_cast<std::int64_t>(bytes_.size() / size)) {
    throw_bug("access to element {} of a view over {} bytes of {}", at, bytes_.size(), name(element_));
  }
  return bytes_.data() + static_cast<std::size_t>(at) * size;
}

std::byte* ViewValue::locate_in_source(const ViewIndex& index, const Literal*& outside) const {
  const Attributes& attributes = op_->attributes;
  const auto axis = [&](std::size_t k) { return static_cast<std::size_t>(attributes.axes[k]); };
  const std::size_t rank = source_->extents_.size();
  ViewIndex to{};
  switch (op_->code) {
    case Opcode::SliceView:
      for (std::size_t k = 0; k < rank; ++k)
        to[k] = plus(numbers_[k], times(attributes.strides[k], index[k]));
      break;
    case Opcode::TransposeView:
      for (std::size_t k = 0; k < rank; ++k) to[axis(k)] = index[k];
      break;
    case Opcode::BroadcastView: {
      std::size_t next = 0;
      for (std::size_t k = 0, source = 0; k < extents_.size(); ++k) {
        if (next < attributes.axes.size() && axis(next) == k) {
          ++next;
        } else {
          to[source++] = index[k];
        }
      }
      break;
    }
    case Opcode::MergeView: {
      const std::size_t first = axis(0);
      const std::size_t count = attributes.axes.size();
      std::copy_n(index.begin(), first, to.begin());
      std::int64_t rest = index[first];
      for (std::size_t k = count; k-- > 0;) {
        const std::int64_t extent = source_->extents_[first + k];
        to[first + k] = k == 0 ? rest : rest % extent;
        rest /= extent;
      }
      std::copy(index.begin() + static_cast<std::ptrdiff_t>(first + 1),
                index.begin() + static_cast<std::ptrdiff_t>(extents_.size()),
                to.begin() + static_cast<std::ptrdiff_t>(first + count));
      break;
    }
    case Opcode::SplitView: {
      const std::size_t first = axis(0);
      const std::size_t count = op_->operands.size() - 1;
      std::copy_n(index.begin(), first, to.begin());
      std::int64_t at = 0;
      for (std::size_t k = 0; k < count; ++k) at = plus(times(at, extents_[first + k]), index[first + k]);
      to[first] = at;
      std::copy(index.begin() + static_cast<std::ptrdiff_t>(first + count),
                index.begin() + static_cast<std::ptrdiff_t>(extents_.size()),
                to.begin() + static_cast<std::ptrdiff_t>(first + 1));
      break;
    }
    case Opcode::WindowView: {
      const std::size_t count = attributes.axes.size();
      const std::size_t kernel = axis(count - 1) + 1;  // where the kernel's axes begin
      for (std::size_t k = 0; k < rank; ++k) to[k] = index[k < kernel ? k : k + count];
      for (std::size_t k = 0; k < count; ++k) {
        std::int64_t& at = to[axis(k)];
        at = plus(times(at, attributes.strides[k]), times(index[kernel + k], attributes.dilations[k]));
        at = plus(at, -numbers_[k]);
      }
      outside = &*attributes.literal;
      break;
    }
    case Opcode::PadView:
      for (std::size_t k = 0; k < rank; ++k) {
        to[k] = plus(index[k], -numbers_[k]);
        if (source_->extents_[k] > 0) to[k] = unpad(attributes.pad_mode, to[k], source_->extents_[k]);
      }
      if (attributes.pad_mode == PadMode::Constant) outside = &*attributes.literal;
      break;
    case Opcode::GatherView: {
      const std::size_t first = axis(0);
      const std::size_t count = other_->extents_.size();
      std::copy_n(index.begin(), first, to.begin());
      ViewIndex inner{};
      std::copy_n(index.begin() + static_cast<std::ptrdiff_t>(first), count, inner.begin());
      const Literal* outside_indices = outside;
      const std::byte* entry = other_->locate(inner, outside_indices);
      if (entry == nullptr) return nullptr;
      const std::int64_t got = with_element_type(other_->element_, [&]<typename T>() -> std::int64_t {
        if constexpr (kIsInteger<T>) {
          T value;
          std::memcpy(&value, entry, sizeof value);
          // An unsigned value beyond i64 is out of range however it is read.
          return std::is_same_v<T, std::uint64_t> && value > T(INT64_MAX) ? INT64_MAX
                                                                          : static_cast<std::int64_t>(value);
        }
        throw_bug("gather through indices of {}", name(other_->element_));
      });
      const std::int64_t extent = source_->extents_[first];
      if (got < -extent || got >= extent) {
        throw_caller(ErrorCode::IndexOutOfRange, "index {} into an axis of extent {}, expected {} to {}", got,
                     extent, -extent, extent - 1);
      }
      to[first] = got < 0 ? got + extent : got;
      std::copy(index.begin() + static_cast<std::ptrdiff_t>(first + count),
                index.begin() + static_cast<std::ptrdiff_t>(extents_.size()),
                to.begin() + static_cast<std::ptrdiff_t>(first + 1));
      break;
    }
    case Opcode::ConcatView: {
      const std::int64_t border = source_->extents_[axis(0)];
      if (index[axis(0)] < border) return source_->locate(index, outside);
      to = index;
      to[axis(0)] -= border;
      return other_->locate(to, outside);
    }
    default:
      throw_bug("{} does not make a view", name(op_->code));
  }
  return source_->locate(to, outside);
}

namespace {

// Calls visit(number of the element, view index) for every element of the box at `at`, in row-major order.
template <typename Visit>
void for_box(const ViewValue& view, std::span<const std::int64_t> at, const Type& type, Visit&& visit) {
  const std::size_t rank = view.extents().size();
  const std::vector<std::int64_t> extents = box_extents(type, static_cast<int>(rank));
  ViewIndex position{};
  ViewIndex index{};
  std::copy(at.begin(), at.end(), index.begin());
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    visit(i, index);
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++position[axis] == extents[axis]) position[axis] = 0;
      index[axis] = plus(at[axis], position[axis]);
      if (position[axis] != 0) break;
    }
  }
}

}  // namespace

TileValue load(const ViewValue& view, std::span<const std::int64_t> at, const Type& type, Literal fill) {
  TileValue result(type);
  with_element_type(type.element, [&]<typename T>() {
    for_box(view, at, type, [&](std::int64_t i, const ViewIndex& index) {
      const Literal* outside = &fill;
      if (const std::byte* bytes = view.locate(index, outside)) {
        if constexpr (std::is_same_v<T, bool>) {
          result.data<T>()[i] = *bytes != std::byte{0};
        } else {
          std::memcpy(result.data<T>() + i, bytes, sizeof(T));
        }
      } else {
        result.data<T>()[i] = from_bits<T>(outside->bits);
      }
    });
  });
  return result;
}

void store(const ViewValue& view, std::span<const std::int64_t> at, const TileValue& value) {
  const std::size_t size = element_size(value.dtype());
  for_box(view, at, value.type(), [&](std::int64_t i, const ViewIndex& index) {
    const Literal* outside = nullptr;
    if (std::byte* bytes = view.locate(index, outside)) {
      std::memcpy(bytes, value.bytes() + static_cast<std::size_t>(i) * size, size);
    }
  });
}

void atomic_add(const ViewValue& view, std::span<const std::int64_t> at, const TileValue& value) {
  with_element_type(value.dtype(), [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      for_box(view, at, value.type(), [&](std::int64_t i, const ViewIndex& index) {
        const Literal* outside = nullptr;
        if (std::byte* bytes = view.locate(index, outside)) {
          T sum;
          std::memcpy(&sum, bytes, sizeof sum);
          sum = primitive::add(sum, value.data<T>()[i]);
          std::memcpy(bytes, &sum, sizeof sum);
        }
      });
    }
  });
}

}  // namespace kiln::tile
