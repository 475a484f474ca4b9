// Gemms of bf16 matrices, compiled by oneDNN.
#pragma once

#include "core/backend/request_hash.h"
#include "core/cpu/support/allocator.h"
#include "core/tensor/dtype.h"

#include <cstdint>
#include <memory>
#include <unordered_map>

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
  size_t hash() const;
};

class DnnlGemm {
 public:
  /// Null when oneDNN has only its reference loops for the request.
  static std::unique_ptr<DnnlGemm> make(const GemmRequest& request);
  ~DnnlGemm();
  int64_t scratch_bytes() const;
  /// `scratch`: 64-byte aligned.
  void run(const void* a, const void* b, void* y, char* scratch);

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
  void run(Allocator& allocator, const GemmRequest& request, const void* a, const void* b, void* y);
  /// Forgets all gemms: after a change of threads.
  void clear() { algorithms_.clear(); }

 private:
  DnnlGemm* find(const GemmRequest& request);

  std::mutex mutex_;  // in has() and run(): a compiled gemm holds its operands' addresses
  std::unordered_map<GemmRequest, std::unique_ptr<DnnlGemm>, RequestHash> algorithms_;
};

}  // namespace whisker::cpu
