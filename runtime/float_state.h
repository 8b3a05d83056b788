// The floating-point environment that kernels expect: round to nearest even, exceptions masked, denormals
// kept.
#pragma once

#include <immintrin.h>

namespace kiln::runtime {

// Sets the calling thread's MXCSR for its lifetime, then restores the caller's, sticky flags included.
class FloatState {
 public:
  static constexpr unsigned kDefault = 0x1f80;

  FloatState() : FloatState(kDefault) {}
  explicit FloatState(unsigned control) : saved_(_mm_getcsr()) {
    if (saved_ != control) _mm_setcsr(control);
  }
  ~FloatState() { _mm_setcsr(saved_); }
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;

 private:
  unsigned saved_;
};

}  // namespace kiln::runtime
