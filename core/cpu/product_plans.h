// Compiled bf16 products by request. Used by the one thread that computes.
#pragma once

#include "core/cpu/allocator.h"
#include "core/cpu/dnnl_product.h"

#include <unordered_map>

namespace whisker::cpu {

struct ProductHash {
  size_t operator()(const ProductRequest& request) const;
};

class ProductPlans {
 public:
  /// True when `request` can be run.
  bool has(const ProductRequest& request) { return find(request) != nullptr; }
  /// Requires has(request).
  void run(Allocator& allocator, const ProductRequest& request, const void* a, const void* b,
           void* y);
  /// Forgets every plan: after a change of threads.
  void clear() { plans_.clear(); }

 private:
  DnnlProduct* find(const ProductRequest& request);

  std::unordered_map<ProductRequest, std::unique_ptr<DnnlProduct>, ProductHash> plans_;
};

}  // namespace whisker::cpu
