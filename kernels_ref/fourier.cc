#include "kernels_ref/fourier.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace kiln::reference {
namespace {

using Complex = FourierTransform::Complex;

// exp(sign * 2 pi i k / n), with the angle taken from the nearest quarter so that multiples of it are exact.
Complex root_of_unity(std::size_t k, std::size_t n, double sign) {
  const std::size_t quarter = (4 * k + n / 2) / n;
  const double numerator = static_cast<double>(4 * k) - static_cast<double>(quarter * n);
  const double angle = std::numbers::pi / 2 * numerator / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0:
      return {c, sign * s};
    case 1:
      return {-s, sign * c};
    case 2:
      return {-c, -sign * s};
    default:
      return {s, -sign * c};
  }
}

std::vector<Complex> roots_of_unity(std::size_t n, double sign) {
  std::vector<Complex> roots(n);
  for (std::size_t k = 0; k < n; ++k) roots[k] = root_of_unity(k, n, sign);
  return roots;
}

// In place for a power of two; roots[k * stride] is exp(-+ 2 pi i k / x.size()).
void transform_power_of_two(std::span<Complex> x, std::span<const Complex> roots) {
  const std::size_t n = x.size();
  for (std::size_t i = 1, reversed = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
    reversed |= bit;
    if (i < reversed) std::swap(x[i], x[reversed]);
  }
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t stride = roots.size() / (2 * half);
    for (std::size_t begin = 0; begin < n; begin += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const Complex a = x[begin + k], r = roots[k * stride], b = x[begin + k + half];
        const Complex turned(b.real() * r.real() - b.imag() * r.imag(),
                             b.real() * r.imag() + b.imag() * r.real());
        x[begin + k] = a + turned;
        x[begin + k + half] = a - turned;
      }
    }
  }
}

}  // namespace

FourierTransform::FourierTransform(std::int64_t length, bool inverse)
    : length_(static_cast<std::size_t>(length)), inverse_(inverse) {
  const double sign = inverse ? 1 : -1;
  if (std::has_single_bit(length_)) {
    roots_ = roots_of_unity(length_, sign);
    return;
  }
  // n k = (n^2 + k^2 - (k - n)^2) / 2
  const std::size_t padded = std::bit_ceil(2 * length_ - 1);
  roots_ = roots_of_unity(padded, -1);
  chirp_.resize(length_);
  chirp_spectrum_.resize(padded);
  for (std::size_t n = 0; n < length_; ++n) {
    const std::size_t square = n * n % (2 * length_);
    chirp_[n] = root_of_unity(square, 2 * length_, sign);
    chirp_spectrum_[n] = std::conj(chirp_[n]);
    if (n > 0) chirp_spectrum_[padded - n] = std::conj(chirp_[n]);
  }
  transform_power_of_two(chirp_spectrum_, roots_);
}

void FourierTransform::run(std::vector<Complex>& signal) const {
  if (chirp_.empty()) {
    transform_power_of_two(signal, roots_);
  } else {
    run_chirp(signal);
  }
  if (!inverse_) return;
  for (Complex& x : signal) x /= static_cast<double>(length_);
}

void FourierTransform::run_chirp(std::vector<Complex>& signal) const {
  const std::size_t padded = chirp_spectrum_.size();
  std::vector<Complex> work(padded);
  for (std::size_t n = 0; n < length_; ++n) work[n] = signal[n] * chirp_[n];
  transform_power_of_two(work, roots_);
  // The inverse transform is the conjugate of that of the conjugate.
  for (std::size_t k = 0; k < padded; ++k) work[k] = std::conj(work[k] * chirp_spectrum_[k]);
  transform_power_of_two(work, roots_);
  for (std::size_t k = 0; k < length_; ++k) {
    signal[k] = std::conj(work[k]) / static_cast<double>(padded) * chirp_[k];
  }
}

}  // namespace kiln::reference
