// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_transpose(gpu::View<const T> x, gpu::View<T> y) {
  const int rows = x.extent(0), columns = x.extent(1);
  const gpu::Array<T> on_x(x), on_y(y);
  const dim3 grid(static_cast<unsigned>((columns + 31) / 32),
                  static_cast<unsigned>((rows + 31) / 32));
  gpu::launch(grid, dim3(32, 8), transpose, on_x, on_y, rows, columns);
  on_y.copy_back();
  if (gpu::is_right(y, [&](int k) { return x(k % rows, k / rows); })) {
    gpu::demand_coalesced();
    gpu::demand_no_bank_conflicts();
  }
}
