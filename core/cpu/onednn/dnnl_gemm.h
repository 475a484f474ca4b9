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

class DnnlGemm {
 public:
  /// Null when oneDNN has only its reference loops for the request.
  static std::unique_ptr<DnnlGemm> make(const GemmRequest& request);
  ~DnnlGemm();
  int64_t scratch_bytes() const;  ///< what run() allocates
  void run(Allocator& allocator, const void* a, const void* b, void* y);

 private:
  struct Impl;
  explicit DnnlGemm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Compiled gemms by request. Threads that compute at the same time take turns.
class GemmAlgorithms {
 public:
  /// True when `request` can be run.
  bool has(const GemmRequest& request) {
    const std::lock_guard lock(mutex_);
    return find(request) != nullptr;
  }
  /// What run() allocates. Requires has(request).
  int64_t scratch_bytes(const GemmRequest& request) {
    const std::lock_guard lock(mutex_);
    return find(request)->scratch_bytes();
  }
  /// Requires has(request).
  void run(Allocator& allocator, const GemmRequest& request, const void* a, const void* b,
           void* y) {
    const std::lock_guard lock(mutex_);
    find(request)->run(allocator, a, b, y);
  }
  /// Forgets all gemms: after a change of threads.
  void clear() { tuner_.clear(); }

 private:
  DnnlGemm* find(const GemmRequest& request) {
    auto* choice = tuner_.find(request);
    if (!choice) choice = &tuner_.add(request, {.algorithm = DnnlGemm::make(request)});
    return choice->algorithm.get();
  }

  std::mutex mutex_;  // in has() and run(): a compiled gemm holds its operands' addresses
  Autotuner<GemmRequest, DnnlGemm> tuner_;
};

}  // namespace whisker::cpu
