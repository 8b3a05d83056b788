#include "ir/graph/layout.h"

namespace kiln::graph {

std::vector<Dim> strides_in_order(const Shape& shape, const AxisOrder& order) {
  std::vector<Dim> strides(shape.size());
  Dim stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[i]);
    strides[axis] = stride;
    stride = stride * shape[axis];
  }
  return strides;
}

std::optional<AxisOrder> order_of_strides(const Shape& shape, const std::vector<Dim>& strides) {
  if (strides.size() != shape.size()) return std::nullopt;
  std::vector<bool> placed(shape.size());
  AxisOrder order(shape.size());
  std::size_t left = shape.size();
  Dim stride = 1;
  for (bool found = true; found;) {
    found = false;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (placed[axis] || shape[axis] == Dim(1) || !(strides[axis] == stride)) continue;
      placed[axis] = found = true;
      order[--left] = static_cast<int>(axis);
      stride = stride * shape[axis];
    }
  }
  std::size_t unit = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (placed[axis]) continue;
    if (!(shape[axis] == Dim(1))) return std::nullopt;
    order[unit++] = static_cast<int>(axis);
  }
  return order;
}

bool is_dense(const Shape& shape, const std::vector<Dim>& strides) {
  if (strides.size() != shape.size()) return false;
  Dim stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Dim(1)) continue;
    if (!(strides[i] == stride)) return false;
    stride = stride * shape[i];
  }
  return true;
}

}  // namespace kiln::graph
