// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_saxpy(T a, gpu::View<const T> x, gpu::View<const T> y, gpu::View<T> result) {
  const gpu::View<T> updated{result.data, result.extents, result.rank, "y"};  // its name in saxpy()
  const gpu::Array<T> on_x(x), on_y(updated, y);
  gpu::launch(2, 64, saxpy, a, on_x, on_y, x.count());
  on_y.copy_back();
  if (gpu::is_right(result, [&](int k) { return a * x[k] + y[k]; })) gpu::demand_coalesced();
}
