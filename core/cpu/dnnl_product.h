// Products of bf16 matrices compiled by oneDNN.
#pragma once

#include "core/dtype.h"

#include <cstdint>
#include <memory>

namespace whisker::cpu {

/// y[i] (m,n) = op(a[i]) (m,k) op(b[i]) (k,n) for each of `batch`; a and b are bf16, row-major.
struct ProductRequest {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored (k,m)
  bool transpose_b = false;  // b is stored (n,k)
  bool shares_a = false;     // one a for the whole batch
  bool shares_b = false;
  DType y = DType::bf16;  // or f32
  bool operator==(const ProductRequest&) const = default;
};

class DnnlProduct {
 public:
  /// Null when oneDNN has nothing but its reference loops for the request.
  static std::unique_ptr<DnnlProduct> make(const ProductRequest& request);
  ~DnnlProduct();
  int64_t scratch_bytes() const;
  /// `scratch`: 64-byte aligned.
  void run(const void* a, const void* b, void* y, char* scratch);

 private:
  struct Impl;
  explicit DnnlProduct(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace whisker::cpu
