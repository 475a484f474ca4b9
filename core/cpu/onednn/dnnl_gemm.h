// Gemms of bf16 matrices, compiled by oneDNN.
#pragma once

#include "core/backend/autotuner.h"
#include "core/cpu/support/allocator.h"
#include "core/tensor/dtype.h"

#include <cstdint>
#include <memory>
#include <mutex>

namespace whisker::cpu {

/// Row-major gemms y[i] (m,n) = op(a[i]) (m,k) op(b[i]) (k,n); a and b are bf16. Matrices are
/// contiguous; where their stride is 0, one serves the whole batch.
struct GemmRequest {
  MatmulGeometry geometry;
  DType y = DType::bf16;  // or f32
  bool operator==(const GemmRequest&) const = default;
  size_t hash() const {
    const MatmulGeometry& g = geometry;
    return WordHash()
        .add(g.batch, g.m, g.n, g.k, g.transpose_a, g.transpose_b, g.a_batch_stride,
             g.b_batch_stride, y)
        .value();
  }
};

struct DnnlGemm;

/// Compiled gemms by request. Threads that compute at the same time take turns.
class GemmAlgorithms {
 public:
  /// True when `request` can be run: oneDNN has more than its reference loops.
  bool has(const GemmRequest& request);
  /// What run() allocates. Requires has(request).
  int64_t scratch_bytes(const GemmRequest& request);
  /// Requires has(request).
  void run(Allocator& allocator, const GemmRequest& request, const void* a, const void* b, void* y);
  /// Forgets all gemms: after a change of threads.
  void clear() { tuner_.clear(); }

 private:
  DnnlGemm* find(const GemmRequest& request);

  std::mutex mutex_;  // a compiled gemm holds its operands' addresses
  Autotuner<GemmRequest, DnnlGemm> tuner_;
};

}  // namespace whisker::cpu
