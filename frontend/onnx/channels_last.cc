#include "frontend/onnx/channels_last.h"

#include <fmt/format.h>

#include "frontend/onnx/shape_nodes.h"

namespace kiln::frontend {

ValueId channels_second(Translation& node, ValueId x, bool back) {
  const auto rank = node.rank(x);
  if (!rank) {
    const ValueId batch = extent(node, x, 0);
    if (back) {
      const ValueId spatial = node.add(OpKind::Shape, {x}, {{"start", std::int64_t{2}}});
      return with_groups_in_order(node, x, {batch, extent(node, x, 1), spatial}, {0, 2, 1});
    }
    return with_groups_in_order(node, x, {batch, extents_between(node, x, 1, -1), extent(node, x, -1)},
                                {0, 2, 1});
  }
  if (*rank < 2) node.invalid(fmt::format("an input of rank {} has no channels", *rank));
  std::vector<std::int64_t> permutation = {0};
  if (!back) permutation.push_back(*rank - 1);
  for (std::int64_t axis = 1; axis < *rank - 1; ++axis) permutation.push_back(back ? axis + 1 : axis);
  if (back) permutation.push_back(1);
  return node.add(OpKind::Transpose, {x}, {{"perm", permutation}});
}

}  // namespace kiln::frontend
