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

/// c = sum (i, j) + beta c.
template <class Sum>
void store_sums(const Gemm& g, const Sum& sum) {
  for (int64_t i = 0; i < g.size.m; ++i) {
    for (int64_t j = 0; j < g.size.n; ++j) {
      float& c = g.c.data[i * g.c.stride + j];
      const float added = sum(i, j);
      c = g.c.beta == 0 ? added : g.c.beta * c + added;
    }
  }
}

void small_gemm(const Gemm& g) {
  const auto at = [](const GemmOperand& x, int64_t row, int64_t column) {
    return x.is_transposed ? x.data[column * x.stride + row] : x.data[row * x.stride + column];
  };
  store_sums(g, [&](int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t l = 0; l < g.size.k; ++l) sum += at(g.a, i, l) * at(g.b, l, j);
    return sum;
  });
}

void library_gemm(const Gemm& g) {
#if WHISKER_ONEDNN
  dnnl_gemm(g);
#else
  const auto [m, n, k] = g.size;
  if (std::max({m, n, k, g.a.stride, g.b.stride, g.c.stride}) >
      std::numeric_limits<blasint>::max()) {
    fail(ErrorKind::usage, "matmul: ({},{}) x ({},{}) exceeds OpenBLAS's 32-bit extents", m, k, k,
         n);
  }
  const auto narrow = [](int64_t v) { return static_cast<blasint>(v); };
  const auto flag = [](const GemmOperand& x) {
    return x.is_transposed ? CblasTrans : CblasNoTrans;
  };
  cblas_sgemm(CblasRowMajor, flag(g.a), flag(g.b), narrow(m), narrow(n), narrow(k), 1, g.a.data,
              narrow(g.a.stride), g.b.data, narrow(g.b.stride), g.c.beta, g.c.data,
              narrow(g.c.stride));
#endif
}

// A library adds up k products in f32 one after the other: for millions of equal ones the error is
// 3 in 1000, for a block of them at most 1 in 100,000. Blocks are added in f64.
void blocked_gemm(const Gemm& g) {
  const auto [m, n, k] = g.size;
  std::vector<float> part(static_cast<size_t>(m * n));  // (m, n)
  std::vector<double> sums(part.size());
  for (int64_t at = 0; at < k; at += k_block) {
    Gemm block = g;
    block.size.k = std::min(k_block, k - at);
    block.a.data += g.a.is_transposed ? at * g.a.stride : at;
    block.b.data += g.b.is_transposed ? at : at * g.b.stride;
    block.c = {part.data(), n};
    m* n* block.size.k <= small_size ? small_gemm(block) : library_gemm(block);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(part[i]);
  }
  store_sums(g, [&, columns = n](int64_t i, int64_t j) {
    return static_cast<float>(sums[static_cast<size_t>(i * columns + j)]);
  });
}

}  // namespace

void gemm(const Gemm& g) {
  const auto [m, n, k] = g.size;
  if (m == 0 || n == 0) return;
  if (m * n * k <= small_size) return small_gemm(g);
  k > long_k ? blocked_gemm(g) : library_gemm(g);
}

}  // namespace whisker::cpu
