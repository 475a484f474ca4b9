// Arithmetic on numbers below 1e-38 costs x86 cores over a hundred cycles. Where a gradient stays
// zero (a dead unit), Adam's first moment decays into that range and stays there: after about 650
// steps the update of a dense layer took ten times as long.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace whisker::cpu {

/// During its lifetime, this thread replaces denormal f32 and f64 operands and results by zero.
class FlushDenormals {
 public:
  FlushDenormals() : previous_(control()) {
    set_control(previous_ | flush);
  }
  ~FlushDenormals() {
    set_control(previous_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned flush = 0x8040;  // MXCSR: FTZ for results, DAZ for operands
  static unsigned control() {
    return _mm_getcsr();
  }
  static void set_control(unsigned value) {
    _mm_setcsr(value);
  }
#elif defined(__aarch64__)
  static constexpr uint64_t flush = uint64_t{1} << 24;  // FPCR: FZ, for both
  static uint64_t control() {
    uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  // Neither loads nor stores of the numbers move across.
  static void set_control(uint64_t value) {
    asm volatile("msr fpcr, %0" : : "r"(value) : "memory");
  }
#else
  static constexpr int flush = 0;
  static int control() {
    return 0;
  }
  static void set_control(int) {}
#endif
  decltype(control()) previous_;
};

}  // namespace whisker::cpu
