#include "frontend/onnx/along_axis.h"

namespace kiln::frontend {

ValueId rank_of(Translation& node, ValueId value) {
  return node.add(OpKind::Shape, {node.add(OpKind::Shape, {value})});
}

ValueId with_trailing_axes(Translation& node, ValueId value, ValueId count) {
  const ValueId shape = node.add(OpKind::Shape, {value});
  const ValueId ones = node.add(OpKind::ConstantOfShape, {count},
                                {{"value", Tensor::from_integers(std::vector<std::int64_t>{1})}});
  const ValueId target = node.add(OpKind::Concat, {shape, ones}, {{"axis", std::int64_t{0}}});
  return node.add(OpKind::Reshape, {value, target}, {{"allowzero", std::int64_t{1}}});
}

ValueId along_axis(Translation& node, ValueId vector, ValueId like, std::int64_t axis) {
  const auto own_rank = node.rank(vector);
  if (own_rank && *own_rank != 1) return vector;
  std::optional<std::int64_t> trailing;
  if (axis < 0) {
    trailing = -axis - 1;
  } else if (const auto rank = node.rank(like)) {
    trailing = *rank - axis - 1;
  }
  if (trailing && *trailing <= 0) return vector;
  if (own_rank && trailing) {
    std::vector<std::int64_t> axes;
    for (std::int64_t i = 1; i <= *trailing; ++i) axes.push_back(i);
    return node.add(OpKind::Unsqueeze, {vector, node.integers(axes)});
  }
  ValueId count = node.integers({trailing.value_or(0)});
  if (!trailing) {
    const ValueId behind = node.add(OpKind::Sub, {rank_of(node, like), node.integers({axis + 1})});
    count = node.add(OpKind::Max, {behind, node.integers({0})});
  }
  if (!own_rank) {
    const ValueId is_vector = node.add(OpKind::Equal, {rank_of(node, vector), node.integers({1})});
    const ValueId one_or_zero = node.add(OpKind::Cast, {is_vector}, to(DType::I64));
    count = node.add(OpKind::Mul, {count, one_or_zero});
  }
  return with_trailing_axes(node, vector, count);
}

}  // namespace kiln::frontend
