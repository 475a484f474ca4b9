// One f32 matrix product, row-major, on whichever library is faster here.
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// c (m,n) = op(a) (m,k) op(b) (k,n) + beta c. Leading dimensions are rows' distances as stored.
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

/// Threaded, or on the calling thread alone inside a parallel region.
void gemm(const Gemm& g);

}  // namespace whisker::cpu
