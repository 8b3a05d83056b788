// Dense arrays for the paper test.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/tile/interpreter.h"
#include "ir/tile/text.h"

namespace kiln::tile {

template <typename T>
class Array {
 public:
  explicit Array(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents_) count *= extent;
    data_.resize(static_cast<std::size_t>(count));
  }
  // Normal numbers, the same for the same seed.
  static Array random(std::vector<std::int64_t> extents, std::uint64_t seed, double scale = 1) {
    Array array(std::move(extents));
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, scale);
    for (T& value : array.data_) value = static_cast<T>(normal(random));
    return array;
  }

  std::int64_t extent(std::size_t axis) const { return extents_[axis]; }
  std::vector<T>& data() { return data_; }
  const std::vector<T>& data() const { return data_; }

  template <typename... Index>
  T& operator()(Index... index) {
    return data_[offset({static_cast<std::int64_t>(index)...})];
  }
  template <typename... Index>
  const T& operator()(Index... index) const {
    return data_[offset({static_cast<std::int64_t>(index)...})];
  }

  Argument argument() {
    std::vector<std::int64_t> strides(extents_.size());
    std::int64_t stride = 1;
    for (std::size_t axis = extents_.size(); axis-- > 0;) {
      strides[axis] = stride;
      stride *= extents_[axis];
    }
    return ViewArgument{std::as_writable_bytes(std::span(data_)), 0, extents_, strides};
  }

 private:
  std::size_t offset(std::initializer_list<std::int64_t> index) const {
    std::int64_t at = 0;
    std::size_t axis = 0;
    for (const std::int64_t i : index) at = at * extents_[axis++] + i;
    return static_cast<std::size_t>(at);
  }

  std::vector<std::int64_t> extents_;
  std::vector<T> data_;
};

// The Kernels of a file in tests/golden/tile.
inline std::vector<Kernel> paper_kernels(const std::string& name, const MetaBindings& bindings) {
  const std::string path = std::string(KILN_SOURCE_DIR) + "/tests/golden/tile/" + name + ".tile";
  std::ifstream file(path);
  if (!file) throw_bug("cannot read {}", path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_kernels(text.str(), path, bindings);
}

// The first element that is further from `want` than `tolerance` times (1 + |want|).
template <typename T, typename Want>
std::string compare(const std::vector<T>& got, const std::vector<Want>& want, double tolerance) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double expected = static_cast<double>(want[i]), found = static_cast<double>(got[i]);
    if (std::isnan(expected) && std::isnan(found)) continue;
    if (!(std::fabs(found - expected) <= tolerance * (1 + std::fabs(expected))) && found != expected) {
      return fmt::format("element {} of {}: got {}, expected {}", i, want.size(), found, expected);
    }
  }
  return {};
}

inline double plain_gelu(double x) { return x * std::erfc(-x * M_SQRT1_2) / 2; }

}  // namespace kiln::tile
