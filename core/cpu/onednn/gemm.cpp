// Gemms too small for a library call are plain loops; the rest is oneDNN's sgemm, or OpenBLAS in
// a build without oneDNN. Debian 12's OpenBLAS 0.3.21 does not know Zen 5 and runs its AVX2 kernels
// there, at half the speed of oneDNN's.
#include "core/cpu/onednn/gemm.h"

#include "core/cpu/support/libraries.h"
#include "core/error.h"

#include <algorithm>
#include <limits>
#include <vector>

#if WHISKER_ONEDNN
#include "core/cpu/onednn/dnnl_api.h"
#else
#include <cblas.h>
#endif

namespace whisker::cpu {
namespace {

constexpr int64_t small_size = 4096;
constexpr int64_t long_k = 16384;
constexpr int64_t k_block = 512;

void small_gemm(const Gemm& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < g.k; ++l) {
        sum += (g.transpose_a ? g.a[l * g.lda + i] : g.a[i * g.lda + l]) *
               (g.transpose_b ? g.b[j * g.ldb + l] : g.b[l * g.ldb + j]);
      }
      float& c = g.c[i * g.ldc + j];
      c = g.beta == 0 ? sum : g.beta * c + sum;
    }
  }
}

void library_gemm(const Gemm& g) {
#if WHISKER_ONEDNN
  dnnl_gemm(g);
#else
  if (std::max({g.m, g.n, g.k, g.lda, g.ldb, g.ldc}) > std::numeric_limits<blasint>::max()) {
    fail(ErrorKind::usage, "matmul: ({},{}) x ({},{}) exceeds OpenBLAS's 32-bit extents", g.m, g.k,
         g.k, g.n);
  }
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
              g.transpose_b ? CblasTrans : CblasNoTrans, narrow(g.m), narrow(g.n), narrow(g.k), 1,
              g.a, narrow(g.lda), g.b, narrow(g.ldb), g.beta, g.c, narrow(g.ldc));
#endif
}

// A library adds up k products in f32 one after the other: for millions of equal ones the error is
// 3 in 1000, for a block of them at most 1 in 100,000. Blocks are added in f64.
void blocked_gemm(const Gemm& g) {
  const auto count = static_cast<size_t>(g.m * g.n);
  std::vector<float> part(count);  // (m, n)
  std::vector<double> sums(count);
  for (int64_t at = 0; at < g.k; at += k_block) {
    Gemm block = g;
    block.k = std::min(k_block, g.k - at);
    block.a += g.transpose_a ? at * g.lda : at;
    block.b += g.transpose_b ? at : at * g.ldb;
    block.c = part.data();
    block.ldc = g.n;
    block.beta = 0;
    block.m* block.n* block.k <= small_size ? small_gemm(block) : library_gemm(block);
    for (size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(part[i]);
  }
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float& c = g.c[i * g.ldc + j];
      const auto sum = static_cast<float>(sums[static_cast<size_t>(i * g.n + j)]);
      c = g.beta == 0 ? sum : g.beta * c + sum;
    }
  }
}

}  // namespace

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.m * g.n * g.k <= small_size) return small_gemm(g);
  g.k > long_k ? blocked_gemm(g) : library_gemm(g);
}

}  // namespace whisker::cpu
