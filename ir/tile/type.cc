#include "ir/tile/type.h"

#include "ir/base/checked_math.h"

namespace kiln::tile {
namespace {

std::string shape_text(const Type& type) {
  std::string text;
  for (const std::int64_t extent : type.extents) {
    text += extent == kDynamic ? "?" : std::to_string(extent);
    text += 'x';
  }
  return text + std::string(name(type.element));
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = stride;
    const std::int64_t extent = extents[axis];
    stride =
        stride == kDynamic || extent < 0 ? kDynamic : checked_multiply(stride, extent).value_or(kDynamic);
  }
  return strides;
}

}  // namespace

Type Type::scalar(DType element) { return {TypeKind::Scalar, element, {}, {}, 0}; }

Type Type::tile(DType element, std::vector<std::int64_t> extents) {
  return {TypeKind::Tile, element, std::move(extents), {}, 0};
}

Type Type::view(DType element, std::vector<std::int64_t> extents) {
  std::vector<std::int64_t> strides = row_major_strides(extents);
  return {TypeKind::MemoryView, element, std::move(extents), std::move(strides), 0};
}

Type Type::view(DType element, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                std::int64_t alignment) {
  return {TypeKind::MemoryView, element, std::move(extents), std::move(strides), alignment};
}

Type Type::derived_view(DType element, std::vector<std::int64_t> extents) {
  return {TypeKind::DerivedView, element, std::move(extents), {}, 0};
}

std::int64_t Type::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count = checked_multiply(count, extent).value_or(INT64_MAX);
  return count;
}

std::string to_string(const Type& type) {
  switch (type.kind) {
    case TypeKind::Scalar:
      return std::string(name(type.element));
    case TypeKind::Tile:
      return "tile<" + shape_text(type) + ">";
    case TypeKind::DerivedView:
      return "derived view<" + shape_text(type) + ">";
    case TypeKind::MemoryView:
      break;
  }
  std::string text = "view<" + shape_text(type);
  if (type.strides != row_major_strides(type.extents)) {
    text += ", strides = [";
    for (std::size_t axis = 0; axis < type.strides.size(); ++axis) {
      if (axis) text += ", ";
      text += type.strides[axis] == kDynamic ? "?" : std::to_string(type.strides[axis]);
    }
    text += "]";
  }
  if (type.alignment) text += ", align = " + std::to_string(type.alignment);
  return text + ">";
}

}  // namespace kiln::tile
