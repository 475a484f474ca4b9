// One compilation per request; null is kept, too, for what oneDNN has nothing for.
#include "core/cpu/product_plans.h"

namespace whisker::cpu {

size_t ProductHash::operator()(const ProductRequest& r) const {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a over whole words
  for (const int64_t value : {r.batch, r.m, r.n, r.k,
                              static_cast<int64_t>(r.transpose_a) + 2 * int64_t{r.transpose_b} +
                                  4 * int64_t{r.shares_a} + 8 * int64_t{r.shares_b},
                              static_cast<int64_t>(r.y)}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3ull;
  }
  return static_cast<size_t>(hash);
}

DnnlProduct* ProductPlans::find(const ProductRequest& request) {
  auto found = plans_.find(request);
  if (found == plans_.end()) found = plans_.emplace(request, DnnlProduct::make(request)).first;
  return found->second.get();
}

void ProductPlans::run(Allocator& allocator, const ProductRequest& request, const void* a,
                       const void* b, void* y) {
  DnnlProduct* product = find(request);
  const Scratch<char> scratch(allocator, product->scratch_bytes());
  product->run(a, b, y, scratch.data());
}

}  // namespace whisker::cpu
