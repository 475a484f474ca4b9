// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_async_copy(gpu::View<const T> x, gpu::View<T> y) {
  const gpu::Array<T> on_x(x), on_y(y);
  gpu::launch(1, 64, async_copy, on_x, on_y, x.count());
  on_y.copy_back();
}
