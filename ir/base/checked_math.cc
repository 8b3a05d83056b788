#include "ir/base/checked_math.h"

#include "ir/base/errors.h"

namespace kiln {

std::int64_t element_count(std::span<const std::int64_t> extents) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) throw_caller(ErrorCode::LimitExceeded, "extent {} is negative", extent);
    if (extent == 0) {
      empty = true;
      continue;
    }
    const auto next = checked_multiply(product, extent);
    if (!next) throw_caller(ErrorCode::LimitExceeded, "the product of the extents overflows 64 bits");
    product = *next;
  }
  return empty ? 0 : product;
}

std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

}  // namespace kiln
