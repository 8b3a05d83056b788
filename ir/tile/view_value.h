// Views as the interpreter holds them: a chain of index maps down to memory, with bounds at every level.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/tile/kernel.h"
#include "ir/tile/tile_value.h"

namespace kiln::tile {

using ViewIndex = std::array<std::int64_t, kMaxViewRank>;

class ViewValue {
 public:
  // A memory view: `bytes` is all that it may touch, for bounds checks.
  static ViewValue memory(DType element, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                          std::int64_t offset, std::span<std::byte> bytes);
  // The result of a view Op on `source` (and `other`: the indices of a gather, the second part of a concat).
  // `indices` are the values of its index operands.
  static ViewValue derived(const Op& op, std::shared_ptr<const ViewValue> source,
                           std::shared_ptr<const ViewValue> other, std::span<const std::int64_t> indices);

  DType element() const { return element_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t byte_size() const { return std::ssize(bytes_); }  // of a memory view

  // Where the element at `index` lies, or null if it is not live; then `outside` becomes the value of the
  // level that it left, and stays where that level has none. Throws Error (index_out_of_range) through a
  // gather, (internal) for memory outside the view's bytes.
  std::byte* locate(const ViewIndex& index, const Literal*& outside) const;

 private:
  bool contains(const ViewIndex& index) const;
  std::byte* locate_in_source(const ViewIndex& index, const Literal*& outside) const;

  const Op* op_ = nullptr;  // null for a memory view
  DType element_ = DType::F32;
  std::vector<std::int64_t> extents_;
  // Slice: offsets. Window, pad: low pads. Memory: strides.
  std::vector<std::int64_t> numbers_;
  std::shared_ptr<const ViewValue> source_;
  std::shared_ptr<const ViewValue> other_;
  std::int64_t offset_ = 0;
  std::span<std::byte> bytes_;
};

// The box of `type` at `at`; what is not live has the value of the level it left, or `fill`.
TileValue load(const ViewValue& view, std::span<const std::int64_t> at, const Type& type, Literal fill);
// What is not live is dropped.
void store(const ViewValue& view, std::span<const std::int64_t> at, const TileValue& value);
void atomic_add(const ViewValue& view, std::span<const std::int64_t> at, const TileValue& value);

}  // namespace kiln::tile
