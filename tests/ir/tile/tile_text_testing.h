// Short ways to write Kernels as text in tests.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/tile/text.h"

namespace kiln::tile {

inline Kernel parse_one(std::string_view text, const MetaBindings& bindings = {}) {
  std::vector<Kernel> kernels = parse_kernels(text, "test.tile", bindings);
  EXPECT_EQ(kernels.size(), 1u);
  return std::move(kernels.at(0));
}

// A kernel round `body` with an input %x, an output %y, both ?x? of f32, indices %i (i32, ?) and a scalar %n
// (i64).
inline std::string kernel_text(std::string_view body) {
  return "kernel @k(%x: view<?x?xf32>, %y: out view<?x?xf32>, %i: view<?xi32>, %n: i64) grid [1] {\n" +
         std::string(body) + "\n}\n";
}

// What parsing says of bad text; the test fails if it says nothing.
inline std::string error_of(std::string_view text, const MetaBindings& bindings = {}) {
  try {
    parse_kernels(text, "test.tile", bindings);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error from\n" << text;
  return "";
}

}  // namespace kiln::tile
