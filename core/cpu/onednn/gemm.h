// One f32 gemm, row-major, by the faster library.
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// A matrix that a gemm reads; `stride`: elements between rows in memory.
struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool is_transposed = false;
};
inline GemmOperand transposed(const float* data, int64_t stride) {
  return {data, stride, true};
}

/// c (m,n) = op(a) (m,k) op(b) (k,n) + beta c.
struct Gemm {
  struct Size {
    int64_t m = 0, n = 0, k = 0;
  };
  struct Result {
    float* data = nullptr;
    int64_t stride = 0;
    float beta = 0;
  };
  Size size;
  GemmOperand a, b;
  Result c;
};

/// Threaded; inside a parallel region on the calling thread only.
void gemm(const Gemm& g);

}  // namespace whisker::cpu
