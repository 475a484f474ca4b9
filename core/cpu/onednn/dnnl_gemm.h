// Gemms of bf16 matrices, compiled by oneDNN.
#pragma once

#include "core/backend/autotuner.h"
#include "core/cpu/support/allocator.h"
#include "core/tensor/dtype.h"

#include <cstdint>
#include <memory>
#include <mutex>

namespace whisker::cpu {

/// y[i] (m,n) = op(a[i]) (m,k) op(b[i]) (k,n) for each of `batch`; a and b are bf16, row-major.
struct GemmRequest {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored (k,m)
  bool transpose_b = false;  // b is stored (n,k)
  bool shares_a = false;     // one a for the whole batch
  bool shares_b = false;
  DType y = DType::bf16;  // or f32
  bool operator==(const GemmRequest&) const = default;
  size_t hash() const {
    return WordHash().add(batch, m, n, k, transpose_a, transpose_b, shares_a, shares_b, y).value();
  }
};

class DnnlGemm {
 public:
  /// Null when oneDNN has only its reference loops for the request.
  static std::unique_ptr<DnnlGemm> make(const GemmRequest& request);
  ~DnnlGemm();
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
