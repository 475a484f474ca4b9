// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_matmul_tiled(gpu::View<const T> a, gpu::View<const T> b, gpu::View<T> c) {
  const int m = a.extent(0), k = a.extent(1), n = b.extent(1);
  const gpu::Array<T> on_a(a), on_b(b), on_c(c);
  const dim3 grid(static_cast<unsigned>((n + 15) / 16), static_cast<unsigned>((m + 15) / 16));
  gpu::launch(grid, dim3(16, 16), matmul_tiled, on_a, on_b, on_c, m, n, k);
  on_c.copy_back();
  gpu::demand_reads(2 * 16 * ((k + 15) / 16 * 16), "both tiles in shared memory");
}
