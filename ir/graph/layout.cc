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
