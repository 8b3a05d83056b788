// The paper test: programs of tests/golden/tile run by the interpreter and compared with plain loops.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/tile/interpreter.h"
#include "ir/tile/text.h"
#include "tests/support/golden.h"

namespace kiln::tile {

// A dense row-major array.
template <typename T>
struct Array {
  std::vector<std::int64_t> extents;
  std::vector<T> data;

  explicit Array(std::vector<std::int64_t> shape, T value = T()) : extents(std::move(shape)) {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
    data.assign(count, value);
  }
  template <typename... Indices>
  T& operator()(Indices... indices) {
    const std::int64_t list[] = {static_cast<std::int64_t>(indices)...};
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < extents.size(); ++axis) at = at * extents[axis] + list[axis];
    return data.at(static_cast<std::size_t>(at));
  }
  operator Argument() {  // NOLINT(google-explicit-constructor)
    ViewArgument view{std::as_writable_bytes(std::span(data)), 0, extents,
                      std::vector<std::int64_t>(extents.size())};
    std::int64_t stride = 1;
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      view.strides[axis] = stride;
      stride *= extents[axis];
    }
    return view;
  }
};

using Floats = Array<float>;

// Uniform in -1 .. 1, the same in every run.
inline Floats random_floats(std::vector<std::int64_t> extents, std::uint32_t seed) {
  Floats array(std::move(extents));
  std::mt19937 generator(seed);
  for (float& x : array.data) x = static_cast<float>(static_cast<double>(generator()) / 2147483648.0 - 1.0);
  return array;
}

// The kernel called `name` of tests/golden/tile/FILE.tile.
inline Kernel paper_kernel(std::string_view file, std::string_view name, const MetaBindings& bindings = {}) {
  const std::string file_name = std::string(file) + ".tile";
  for (Kernel& kernel :
       parse_kernels(testing::read_file(testing::golden_path("tile/" + file_name)), file_name, bindings)) {
    if (kernel.name == name) return std::move(kernel);
  }
  throw std::logic_error("no kernel " + std::string(name));
}

inline void run(const Kernel& kernel, std::initializer_list<Argument> arguments) {
  interpret(kernel, std::span(arguments.begin(), arguments.size()));
}

// |got - want| <= tolerance * (1 + |want|) for every element; the first few that differ are shown.
template <typename Got, typename Want>
void expect_close(const Array<Got>& got, const Array<Want>& want, double tolerance) {
  ASSERT_EQ(got.extents, want.extents);
  int shown = 0;
  for (std::size_t i = 0; i < want.data.size() && shown < 5; ++i) {
    const auto g = static_cast<double>(got.data[i]);
    const auto w = static_cast<double>(want.data[i]);
    if (std::abs(g - w) <= tolerance * (1 + std::abs(w))) continue;  // false for NaN
    ADD_FAILURE() << "element " << i << " is " << g << ", expected " << w;
    ++shown;
  }
}

}  // namespace kiln::tile
