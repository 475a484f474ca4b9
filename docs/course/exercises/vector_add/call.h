// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_vector_add(gpu::View<const T> a, gpu::View<const T> b, gpu::View<T> sum) {
  const gpu::Array<T> on_a(a), on_b(b), on_sum(sum);
  const int n = sum.count();
  gpu::launch((n + 63) / 64, 64, vector_add, on_a, on_b, on_sum, n);
  on_sum.copy_back();
  if (gpu::is_right(sum, [&](int k) { return a[k] + b[k]; })) {
    gpu::demand_reads(2 * 64, "64 elements of a and of b, one of each a thread,");
  }
}
