#include "ir/tile/type.h"

#include <algorithm>

#include <fmt/format.h>

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

std::string broken_limit(const Type& type) {
  const DTypeClass kind = dtype_class(type.element);
  if (kind == DTypeClass::Complex || kind == DTypeClass::String)
    return "has a dtype that kernels do not have";
  if (type.is_scalar()) return "";
  if (type.rank() > kMaxViewRank || (type.is_tile() && type.extents.empty())) {
    return fmt::format("has {} axes, expected {} to {}", type.rank(), type.is_tile() ? 1 : 0, kMaxViewRank);
  }
  for (const std::int64_t extent : type.extents) {
    const bool admitted = type.is_tile() ? extent >= 1 : extent >= 0 || extent == kDynamic;
    if (!admitted) return fmt::format("has extent {}, expected at least {}", extent, type.is_tile() ? 1 : 0);
  }
  if (type.is_tile()) {
    const auto wide = type.rank() - std::count(type.extents.begin(), type.extents.end(), 1);
    if (wide > kMaxTileRank)
      return fmt::format("has {} axes other than 1, expected at most {}", wide, kMaxTileRank);
    if (type.elements() > kMaxTileElements) return fmt::format("has more than {} elements", kMaxTileElements);
    return "";
  }
  if (type.kind == TypeKind::DerivedView) return "";
  if (type.strides.size() != type.extents.size()) {
    return fmt::format("has {} strides, expected {}", type.strides.size(), type.extents.size());
  }
  const bool power_of_two = type.alignment >= 0 && (type.alignment & (type.alignment - 1)) == 0;
  if (!power_of_two || type.alignment > kMaxAlignment) {
    return fmt::format("has alignment {}, expected a power of two up to {}", type.alignment, kMaxAlignment);
  }
  return "";
}

}  // namespace kiln::tile
