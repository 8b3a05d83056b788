// Types of tile-IR values: scalars, tiles with static extents, and tensor views with implicit bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <kiln/dtype.h>

namespace kiln::tile {

// An extent or stride known only at run time; prints as `?`.
constexpr std::int64_t kDynamic = INT64_MIN;
constexpr int kMaxViewRank = 10;
constexpr int kMaxTileRank = 6;  // axes with an extent other than 1; at most kMaxViewRank axes in all
constexpr std::int64_t kMaxAlignment = 4096;  // bytes
constexpr std::int64_t kMaxTileElements = std::int64_t{1} << 24;

enum class TypeKind : std::uint8_t { Scalar, Tile, MemoryView, DerivedView };

struct Type {
  TypeKind kind = TypeKind::Scalar;
  DType element = DType::F32;
  std::vector<std::int64_t> extents;  // Tile: all static and >= 1. Views: static or kDynamic
  std::vector<std::int64_t> strides;  // MemoryView only: in elements, static or kDynamic, one per axis
  std::int64_t alignment = 0;  // MemoryView only: bytes that the base address is a multiple of; 0 = element

  static Type scalar(DType element);
  static Type tile(DType element, std::vector<std::int64_t> extents);
  // Row-major strides: static while the inner extents are, the rest kDynamic.
  static Type view(DType element, std::vector<std::int64_t> extents);
  static Type view(DType element, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                   std::int64_t alignment = 0);
  static Type derived_view(DType element, std::vector<std::int64_t> extents);
  static Type index() { return scalar(DType::I64); }

  bool is_scalar() const { return kind == TypeKind::Scalar; }
  bool is_tile() const { return kind == TypeKind::Tile; }
  bool is_view() const { return kind == TypeKind::MemoryView || kind == TypeKind::DerivedView; }
  int rank() const { return static_cast<int>(extents.size()); }
  std::int64_t elements() const;  // Tile: product (INT64_MAX if beyond); Scalar: 1
  bool operator==(const Type&) const = default;
};

// "f32", "tile<4x64xf32>", "view<?x768xf32, strides = [?, 1], align = 64>".
std::string to_string(const Type& type);

// The limit of the language that the type breaks, such as "has 11 axes, expected at most 10"; empty if none.
std::string broken_limit(const Type& type);

}  // namespace kiln::tile
