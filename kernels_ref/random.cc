// Random numbers. Number i of a stream is a hash of the stream and i, so that it depends neither on threads
// nor on what was drawn before. With a seed the stream is that of the seed, the same in every run; else each
// run has one of its own.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// A bijection of 64 bits in which every bit of the result depends on every bit of `x` (the finaliser of
// SplitMix64).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

class Stream {
 public:
  explicit Stream(const graph::Node& node)
      : key_(mixed(has(node, "seed") ? std::bit_cast<std::uint64_t>(number(node, "seed")) : fresh())) {}

  // Uniform in [0, 1), a multiple of 2^-precision.
  double uniform(std::uint64_t index, int precision = 53) const {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;  // odd, its bits without pattern
    const std::uint64_t bits = mixed(key_ + (index + 1) * kStep);
    return std::ldexp(static_cast<double>(bits >> (64 - precision)), -precision);
  }

  double normal(std::uint64_t index) const {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(2 * index)));
    return radius * std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
  }

 private:
  static std::uint64_t fresh() {
    static const std::uint64_t process = [] {
      std::random_device device;
      return (std::uint64_t{device()} << 32) | device();
    }();
    static std::atomic<std::uint64_t> drawn{0};
    return mixed(process) + drawn.fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t key_;
};

// Bits that hold every multiple of 2^-bits below 1 in a dtype.
int precision_of(DType dtype) {
  switch (dtype) {
    case DType::BF16:
      return 8;
    case DType::F16:
      return 11;
    case DType::F32:
      return 24;
    default:
      return 53;
  }
}

// output = draw(index), rounded once.
template <typename Draw>
void fill(Call& call, DType dtype, Draw draw) {
  const Extents extents = call.input(0).to_integers();
  expect_bounded(extents, "the random tensor");
  Tensor& y = call.output(0, call.promoted(dtype), extents);
  dispatch(Floats{}, y.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for_range(call, y.elements(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = convert<T>(draw(static_cast<std::uint64_t>(i)));
    });
  });
}

}  // namespace

void random_normal(Call& call) {
  const Stream stream(call.node);
  const double mean = number(call.node, "mean"), scale = number(call.node, "scale");
  fill(call, static_cast<DType>(integer(call.node, "dtype")),
       [&](std::uint64_t i) { return mean + scale * stream.normal(i); });
}

// Draws have the precision of the dtype, so that rounding never gives `high` of the default range.
void random_uniform(Call& call) {
  const Stream stream(call.node);
  const double low = number(call.node, "low"), high = number(call.node, "high");
  const auto dtype = static_cast<DType>(integer(call.node, "dtype"));
  const int precision = precision_of(dtype);
  fill(call, dtype, [&](std::uint64_t i) { return low + (high - low) * stream.uniform(i, precision); });
}

// Each row holds unnormalised logarithms of the probabilities of its classes.
void multinomial(Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() != 2)
    throw_caller(ErrorCode::ShapeMismatch, "input must have rank 2, got {}", to_string(x.extents()));
  const std::int64_t rows = x.extents()[0], classes = x.extents()[1],
                     samples = integer(call.node, "sample_size");
  expect_bounded({rows, samples}, "the samples");
  const std::vector<double> logits = to_numbers(x);
  const Stream stream(call.node);
  Tensor& y = call.output(0, static_cast<DType>(integer(call.node, "dtype")), {rows, samples});
  dispatch(Types<std::int32_t, std::int64_t>{}, y.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    std::vector<double> cumulative(static_cast<std::size_t>(classes));
    for (std::int64_t row = 0; row < rows && samples > 0; ++row) {
      const auto first = logits.begin() + row * classes;
      const double greatest = classes == 0 ? 0 : *std::max_element(first, first + classes);
      double total = 0;
      for (std::size_t k = 0; k < cumulative.size(); ++k) {
        total += std::exp(first[static_cast<std::ptrdiff_t>(k)] - greatest);
        cumulative[k] = total;
      }
      if (!(total > 0 && std::isfinite(total))) {
        throw_caller(ErrorCode::InvalidArgument,
                     "row {} has no finite logarithm of a probability, or has NaN or +inf", row);
      }
      for (std::int64_t i = row * samples; i < (row + 1) * samples; ++i) {
        const double at = total * stream.uniform(static_cast<std::uint64_t>(i));
        // The first class whose share reaches beyond `at`; one without a share has none.
        const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end() - 1, at);
        to[i] = static_cast<T>(chosen - cumulative.begin());
      }
    }
  });
}

}  // namespace kiln::reference
