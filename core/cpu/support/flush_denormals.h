// Arithmetic on numbers below 1e-38 costs x86 cores over a hundred cycles. Where a gradient stays
// zero (a dead unit), Adam's first moment decays into that range and stays there: after about 650
// steps the update of a dense layer took ten times as long.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace whisker::cpu {

/// During its lifetime, this thread replaces denormal f32 and f64 operands and results by zero.
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
