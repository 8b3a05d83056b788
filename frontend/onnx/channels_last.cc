#include "frontend/onnx/channels_last.h"

namespace kiln::frontend {

ValueId channels_second(Translation& node, ValueId x, bool back) {
  const auto rank = node.rank(x);
  if (!rank || *rank < 2) node.unsupported("channels last need an input of known rank, at least 2");
  std::vector<std::int64_t> permutation = {0};
  if (!back) permutation.push_back(*rank - 1);
  for (std::int64_t axis = 1; axis < *rank - 1; ++axis) permutation.push_back(back ? axis + 1 : axis);
  if (back) permutation.push_back(1);
  return node.add(OpKind::Transpose, {x}, {{"perm", permutation}});
}

}  // namespace kiln::frontend
