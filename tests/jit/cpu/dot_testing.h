// Runs compiled and interpreted kernels on the same arrays and compares with plain loops in f64.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/base/float_types.h"
#include "ir/tile/builder.h"
#include "ir/tile/interpreter.h"
#include "ir/tile/passes/passes.h"
#include "jit/compile.h"
#include "jit/kernel_abi.h"
#include "jit/load/loader.h"

namespace kiln::dot_testing {

inline std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t result = 1;
  for (const std::int64_t extent : extents) result *= extent;
  return result;
}

// A row-major array between guard bytes that no kernel may change.
class Array {
 public:
  Array(DType dtype, std::vector<std::int64_t> extents)
      : dtype_(dtype),
        extents_(std::move(extents)),
        bytes_(static_cast<std::size_t>(product(extents_) * bits(dtype) / 8) + 2 * kGuard, kPattern) {}

  // Normal values, or whole numbers over the whole range of a narrow integer type.
  static Array random(DType dtype, std::vector<std::int64_t> extents, unsigned seed) {
    Array array(dtype, std::move(extents));
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      if (is_float(dtype)) {
        array.set(i, normal(generator));
      } else {
        const std::int64_t low = dtype == DType::U8 ? 0 : -128;
        array.set(i, static_cast<double>(static_cast<std::int64_t>(generator() % 256) + low));
      }
    }
    return array;
  }

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t elements() const { return product(extents_); }
  std::byte* data() { return bytes_.data() + kGuard; }
  const std::byte* data() const { return bytes_.data() + kGuard; }
  std::span<std::byte> bytes() { return {data(), bytes_.size() - 2 * kGuard}; }

  void set(std::int64_t i, double value) {
    switch (dtype_) {
      case DType::F32:
        put(i, static_cast<float>(value));
        break;
      case DType::F64:
        put(i, value);
        break;
      case DType::F16:
        put(i, Float16(value));
        break;
      case DType::BF16:
        put(i, BFloat16(value));
        break;
      case DType::I8:
        put(i, static_cast<std::int8_t>(value));
        break;
      case DType::U8:
        put(i, static_cast<std::uint8_t>(value));
        break;
      case DType::I32:
        put(i, static_cast<std::int32_t>(value));
        break;
      case DType::I64:
        put(i, static_cast<std::int64_t>(value));
        break;
      default:
        FAIL() << "no test array of " << name(dtype_);
    }
  }
  double at(std::int64_t i) const {
    switch (dtype_) {
      case DType::F32:
        return get<float>(i);
      case DType::F64:
        return get<double>(i);
      case DType::F16:
        return static_cast<double>(get<Float16>(i));
      case DType::BF16:
        return static_cast<double>(get<BFloat16>(i));
      case DType::I8:
        return get<std::int8_t>(i);
      case DType::U8:
        return get<std::uint8_t>(i);
      case DType::I32:
        return get<std::int32_t>(i);
      case DType::I64:
        return static_cast<double>(get<std::int64_t>(i));
      default:
        return NAN;
    }
  }
  bool guards_intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kPattern || bytes_[bytes_.size() - 1 - i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kPattern{0xA5};
  template <typename T>
  void put(std::int64_t i, T value) {
    std::memcpy(data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  T get(std::int64_t i) const {
    T value;
    std::memcpy(&value, data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }

  DType dtype_;
  std::vector<std::int64_t> extents_;
  std::vector<std::byte> bytes_;
};

inline std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

// Compiles, loads and runs the whole grid; arrays in the order of the parameters, all views.
inline void run_compiled(const tile::Kernel& kernel, const tile::Schedule& schedule, Isa isa,
                         const std::vector<Array*>& arrays) {
  tile::Kernel expanded = kernel;
  tile::expand_functions(expanded);
  const jit::Artifact artifact =
      jit::compile(expanded, schedule, jit::target_for_isa(isa), "kiln_dot_test").value();
  const jit::LoadedKernel loaded = jit::load(artifact).value();
  std::vector<std::uint64_t> words;
  for (Array* array : arrays) {
    words.push_back(std::bit_cast<std::uint64_t>(array->data()));
    for (const std::int64_t extent : array->extents()) words.push_back(static_cast<std::uint64_t>(extent));
    for (const std::int64_t stride : row_major(array->extents()))
      words.push_back(static_cast<std::uint64_t>(stride));
  }
  std::int64_t low[jit::kMaxGridRank] = {}, high[jit::kMaxGridRank] = {};
  loaded.grid(words.data(), high);
  const auto scratch_bytes = static_cast<std::size_t>(loaded.scratch(words.data()));
  // Filled with NaN bits, so that a read of scratch that nobody wrote shows; a guard behind shows writes.
  std::vector<std::byte> scratch(scratch_bytes + 128, std::byte{0xFF});
  void* aligned = scratch.data();
  std::size_t room = scratch.size();
  aligned = std::align(64, scratch_bytes + 1, aligned, room);
  jit::KernelStatus status;
  const jit::KernelCall call{words.data(), low, high, aligned, &status};
  loaded.run(&call);
  EXPECT_EQ(status.code, 0);
  EXPECT_EQ(static_cast<std::byte*>(aligned)[scratch_bytes], std::byte{0xFF}) << "scratch overrun";
  for (Array* array : arrays) EXPECT_TRUE(array->guards_intact());
}

inline void run_interpreted(const tile::Kernel& kernel, const std::vector<Array*>& arrays) {
  std::vector<tile::Argument> arguments;
  for (Array* array : arrays) {
    arguments.push_back(tile::ViewArgument{array->bytes(), 0, array->extents(), row_major(array->extents())});
  }
  tile::interpret(kernel, arguments);
}

// Sums of products with their magnitudes, for an error bound.
struct Expected {
  std::vector<double> values;
  std::vector<double> magnitudes;
  explicit Expected(std::int64_t count)
      : values(static_cast<std::size_t>(count)), magnitudes(static_cast<std::size_t>(count)) {}
  void add(std::int64_t i, double a, double b) {
    values[static_cast<std::size_t>(i)] += a * b;
    magnitudes[static_cast<std::size_t>(i)] += std::abs(a * b);
  }
};

inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 0x1p-53;
    case DType::F32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

// |got - want| <= terms * u * sum |a b|, the bound of any summation order; integers are exact.
inline void expect_near(const Array& got, const Expected& want, std::int64_t terms) {
  const double unit = unit_roundoff(got.dtype());
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double value = want.values[static_cast<std::size_t>(i)];
    const double bound = static_cast<double>(terms + 2) * unit * want.magnitudes[static_cast<std::size_t>(i)];
    if (std::isfinite(value)) {
      ASSERT_LE(std::abs(got.at(i) - value), bound)
          << "element " << i << ": got " << got.at(i) << ", want " << value;
    } else if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(got.at(i))) << "element " << i << ": got " << got.at(i);
    } else {
      ASSERT_EQ(got.at(i), value) << "element " << i;
    }
  }
}

inline std::vector<Isa> isas() {
  std::vector<Isa> result{Isa::X86_64_V3};
  if (jit::host_target().isa == Isa::X86_64_V4) result.push_back(Isa::X86_64_V4);
  return result;
}

}  // namespace kiln::dot_testing
