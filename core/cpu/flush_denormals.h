// Arithmetic on numbers below 1e-38 takes x86 cores over a hundred cycles each. Where a gradient
// stays zero (a pixel behind a dead unit), Adam's first moment decays into that range and stays
// there: after some 650 steps a dense layer's update took ten times as long.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace whisker::cpu {

/// While one lives, this thread takes and makes zeros for denormal f32 and f64 numbers.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : previous_(_mm_getcsr()) {
    _mm_setcsr(previous_ | flush_results | zero_inputs);
  }
  ~FlushDenormals() {
    _mm_setcsr(previous_);
  }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned flush_results = 0x8000;  // MXCSR.FTZ
  static constexpr unsigned zero_inputs = 0x0040;    // MXCSR.DAZ
  unsigned previous_;
#endif
};

}  // namespace whisker::cpu
