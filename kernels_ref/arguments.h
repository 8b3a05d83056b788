// What kernels ask of their inputs and attributes again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <kiln/tensor.h>

#include "kernels_ref/reference.h"

namespace kiln::reference {

// `axis`, counted from the back if negative. Throws Error (caller, invalid_argument) outside [-rank, rank).
std::size_t normalized_axis(std::int64_t axis, std::int64_t rank);

// The same for a list in which no axis may appear twice; `rank` flags, set for the axes in the list.
std::vector<bool> axis_flags(std::span<const std::int64_t> axes, std::int64_t rank);

// Elements of a numeric tensor as f64.
std::vector<double> to_numbers(const Tensor& tensor);
// The only element. Throws Error (caller, shape_mismatch) if there is not exactly one.
double to_number(const Tensor& tensor);
std::int64_t to_integer(const Tensor& tensor);

// Input `index` as integers, or nothing if absent.
std::vector<std::int64_t> optional_integers(const Call& call, std::size_t index);

// Throws Error (caller, shape_mismatch) unless `tensor` has these extents.
void expect_extents(std::string_view what, const Tensor& tensor, const Extents& extents);
// Throws Error (caller, shape_mismatch) if the rank is below `minimum`.
void expect_rank(std::string_view what, const Tensor& tensor, std::int64_t minimum);

// Most elements of a result whose size is a number in the data rather than that of an input.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
// Throws Error (caller, limit_exceeded) beyond that; returns its argument.
std::int64_t expect_bounded(std::int64_t elements, std::string_view what);
// The same for the product of extents, and Error (caller, invalid_argument) for a negative one.
void expect_bounded(const Extents& extents, std::string_view what);

// Product of extents [begin, end).
std::int64_t product(const Extents& extents, std::size_t begin, std::size_t end);
inline std::int64_t product(const Extents& extents) { return product(extents, 0, extents.size()); }

// A numeric or boolean tensor with elements of another dtype, by the rules of Cast.
Tensor converted(const Call& call, const Tensor& tensor, DType dtype);

// If `dtype` is f16 or bf16, runs `kernel` with every input of that dtype widened to f32, narrows those f32
// outputs whose indices are listed, and returns true: the whole kernel computes in f32 and rounds once.
bool computed_in_f32(Call& call, DType dtype, Kernel kernel,
                     std::initializer_list<std::size_t> narrowed = {0});

// The elements of a tensor of packed ones (several to a byte) as one byte each, and back.
Tensor unpacked(const Tensor& tensor);
Tensor packed(DType dtype, const Tensor& bytes);

// If `dtype` is packed several to a byte, runs `kernel` with every input of that dtype as one byte per
// element, packs the outputs of that form again, and returns true. For kernels that only move elements.
bool moved_as_bytes(Call& call, DType dtype, Kernel kernel);

}  // namespace kiln::reference
