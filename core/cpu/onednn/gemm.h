// One f32 gemm, row-major, by the faster library.
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// c (m,n) = op(a) (m,k) op(b) (k,n) + beta c. Leading dimensions: elements between rows in memory.
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float beta = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};

/// Threaded; inside a parallel region on the calling thread only.
void gemm(const Gemm& g);

}  // namespace whisker::cpu
