// The discrete Fourier transform of any length, in f64.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace kiln::reference {

// Transforms signals of one length: y[k] = sum of x[n] * exp(-+ 2 pi i n k / length), for the inverse divided
// by the length. O(length log length). Thread safe.
class FourierTransform {
 public:
  using Complex = std::complex<double>;

  // `length` is 1 to 2^30.
  FourierTransform(std::int64_t length, bool inverse);

  // `signal` has `length` elements, and becomes its spectrum.
  void run(std::vector<Complex>& signal) const;

 private:
  void run_chirp(std::vector<Complex>& signal) const;

  std::size_t length_;
  bool inverse_;
  std::vector<Complex> roots_;  // exp(-+ 2 pi i k / length)
  // For lengths that are no powers of two: the transform as a convolution with a chirp, which powers of two
  // do.
  std::vector<Complex> chirp_, chirp_spectrum_;
};

}  // namespace kiln::reference
