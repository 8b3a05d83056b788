// Fourier transforms of signals, and the filter bank of speech recognition. Computed in f64.
#include <cmath>
#include <complex>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/fourier.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

using Complex = FourierTransform::Complex;

std::int64_t checked_length(std::int64_t length, std::string_view what) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 25;
  if (length < 1) throw_caller(ErrorCode::InvalidArgument, "{} must be 1 or more, got {}", what, length);
  if (length > kLongest) {
    throw_caller(ErrorCode::LimitExceeded, "{} is {}, expected at most {}", what, length, kLongest);
  }
  return length;
}

// Whether elements come in pairs of real and imaginary part, as the last extent says.
bool is_complex(const Tensor& x) {
  const std::int64_t parts = x.extents().back();
  if (parts != 1 && parts != 2) {
    throw_caller(ErrorCode::ShapeMismatch, "the last extent must be 1 (real) or 2 (complex), got {}",
                 to_string(x.extents()));
  }
  return parts == 2;
}

// As many bins of a spectrum as are kept.
std::int64_t bins(std::int64_t length, bool onesided) { return onesided ? length / 2 + 1 : length; }

}  // namespace

void dft(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), dft)) return;
  expect_rank("input", x, 2);
  const bool inverse = integer(call.node, "inverse") != 0, onesided = integer(call.node, "onesided") != 0;
  const bool complex = is_complex(x);
  if (complex && onesided && !inverse) {
    throw_caller(ErrorCode::ShapeMismatch, "onesided is set for complex input, expected real input");
  }
  const std::size_t axis = normalized_axis(call.has_input(2) ? to_integer(call.input(2)) : -2, x.rank());
  const std::size_t last = x.extents().size() - 1;
  if (axis == last) {
    throw_caller(ErrorCode::InvalidArgument,
                 "axis is the last one, which has the real and imaginary parts, expected another");
  }
  const bool to_real = onesided && inverse;
  const std::int64_t given = x.extents()[axis];
  const std::int64_t length = checked_length(call.has_input(1) ? to_integer(call.input(1))
                                             : to_real         ? 2 * (given - 1)
                                                               : given,
                                             "dft_length");
  const std::int64_t kept = to_real ? length : bins(length, onesided);
  Extents extents = x.extents();
  extents[axis] = kept;
  extents[last] = to_real ? 1 : 2;
  expect_bounded(extents, "the transform");
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;
  const std::int64_t inner = product(x.extents(), axis + 1, last), outer = product(x.extents(), 0, axis);
  const std::int64_t in_parts = complex ? 2 : 1, out_parts = extents[last];
  // Of a one-sided spectrum the bins beyond half are the conjugates of those below.
  const std::int64_t read = std::min(given, to_real ? length / 2 + 1 : length);
  const FourierTransform transform(length, inverse);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for_range(call, outer * inner, 64 * length, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Complex> signal;
      for (std::int64_t row = begin; row < end; ++row) {
        signal.assign(static_cast<std::size_t>(length), Complex());
        const T* line = from + (row / inner * given * inner + row % inner) * in_parts;
        for (std::int64_t n = 0; n < read; ++n) {
          const T* element = line + n * inner * in_parts;
          const Complex value(static_cast<double>(element[0]), complex ? static_cast<double>(element[1]) : 0);
          signal[static_cast<std::size_t>(n)] = value;
          if (to_real && n > 0 && 2 * n < length)
            signal[static_cast<std::size_t>(length - n)] = std::conj(value);
        }
        transform.run(signal);
        T* result = to + (row / inner * kept * inner + row % inner) * out_parts;
        for (std::int64_t k = 0; k < kept; ++k) {
          T* element = result + k * inner * out_parts;
          element[0] = static_cast<T>(signal[static_cast<std::size_t>(k)].real());
          if (out_parts == 2) element[1] = static_cast<T>(signal[static_cast<std::size_t>(k)].imag());
        }
      }
    });
  });
}

void stft(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), stft)) return;
  expect_rank("signal", x, 2);
  const bool complex = x.rank() > 2 && is_complex(x), onesided = integer(call.node, "onesided") != 0;
  if (complex && onesided) {
    throw_caller(ErrorCode::ShapeMismatch, "onesided is set for a complex signal, expected a real one");
  }
  const std::int64_t step = to_integer(call.input(1));
  if (step < 1) throw_caller(ErrorCode::InvalidArgument, "frame_step must be 1 or more, got {}", step);
  const std::int64_t length = checked_length(call.has_input(3)   ? to_integer(call.input(3))
                                             : call.has_input(2) ? call.input(2).elements()
                                                                 : x.extents()[1],
                                             "frame_length");
  std::vector<double> window(static_cast<std::size_t>(call.has_input(2) ? 0 : length), 1.0);
  if (call.has_input(2)) {
    expect_extents("window", call.input(2), {length});
    window = to_numbers(call.input(2));
  }
  const std::int64_t batch = x.extents()[0], samples = x.extents()[1];
  const std::int64_t frames = samples < length ? 0 : (samples - length) / step + 1,
                     kept = bins(length, onesided);
  expect_bounded({batch, frames, kept, 2}, "the transform");
  Tensor& y = call.output(0, x.dtype(), {batch, frames, kept, 2});
  if (y.elements() == 0) return;
  const std::int64_t parts = complex ? 2 : 1;
  const FourierTransform transform(length, false);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for_range(call, batch * frames, 64 * length, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Complex> signal(static_cast<std::size_t>(length));
      for (std::int64_t frame = begin; frame < end; ++frame) {
        const T* first = from + (frame / frames * samples + frame % frames * step) * parts;
        for (std::int64_t n = 0; n < length; ++n) {
          const T* element = first + n * parts;
          signal[static_cast<std::size_t>(n)] =
              Complex(static_cast<double>(element[0]), complex ? static_cast<double>(element[1]) : 0) *
              window[static_cast<std::size_t>(n)];
        }
        transform.run(signal);
        for (std::int64_t k = 0; k < kept; ++k) {
          T* element = to + (frame * kept + k) * 2;
          element[0] = static_cast<T>(signal[static_cast<std::size_t>(k)].real());
          element[1] = static_cast<T>(signal[static_cast<std::size_t>(k)].imag());
        }
      }
    });
  });
}

// Triangles over the bins of a spectrum, whose corners are evenly spaced in mel = 2595 log10(1 + hertz /
// 700). The standard divides the range into two parts more than there are corners, and a triangle of no width
// on its left is 1 at its peak.
void mel_weight_matrix(Call& call) {
  const std::int64_t count = to_integer(call.input(0)), length = to_integer(call.input(1));
  const std::int64_t rate = to_integer(call.input(2));
  const double low = to_number(call.input(3)), high = to_number(call.input(4));
  if (count < 0 || length < 0) {
    throw_caller(ErrorCode::InvalidArgument, "num_mel_bins and dft_length must be 0 or more, got {} and {}",
                 count, length);
  }
  if (rate < 1) throw_caller(ErrorCode::InvalidArgument, "sample_rate must be 1 or more, got {}", rate);
  if (!(low >= 0 && low <= high && std::isfinite(high))) {
    throw_caller(ErrorCode::InvalidArgument,
                 "edges must be finite with 0 <= lower_edge_hertz <= upper_edge_hertz, got {} and {}", low,
                 high);
  }
  const std::int64_t rows = length / 2 + 1;
  expect_bounded({rows, count}, "the matrix");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(low), step = (mel(high) - first) / static_cast<double>(count + 2);
  const auto corner = [&](std::int64_t i) {
    const double hertz = 700 * (std::pow(10.0, (first + static_cast<double>(i) * step) / 2595) - 1);
    const double bin = std::floor((static_cast<double>(length) + 1) * hertz / static_cast<double>(rate));
    return static_cast<std::int64_t>(std::clamp(bin, 0.0, 1e15));
  };
  const DType dtype = call.promoted(static_cast<DType>(integer(call.node, "dtype")));
  Tensor& y = call.output(0, dtype, {rows, count});
  dispatch(Numbers{}, dtype, [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    std::fill_n(to, y.elements(), T());
    // Bins beyond the spectrum are left out.
    const auto set = [&](std::int64_t bin, std::int64_t column, double value) {
      if (bin < rows) to[bin * count + column] = convert<T>(value);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t left = corner(i), peak = corner(i + 1), right = corner(i + 2);
      if (left == peak) set(peak, i, 1);
      for (std::int64_t bin = left; bin <= std::min(peak, rows - 1) && left < peak; ++bin) {
        set(bin, i, static_cast<double>(bin - left) / static_cast<double>(peak - left));
      }
      for (std::int64_t bin = peak; bin < std::min(right, rows); ++bin) {
        set(bin, i, static_cast<double>(right - bin) / static_cast<double>(right - peak));
      }
    }
  });
}

}  // namespace kiln::reference
