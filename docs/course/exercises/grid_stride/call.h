// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_saxpy(T a, gpu::View<const T> x, gpu::View<const T> y, gpu::View<T> result) {
  const gpu::Array<T> on_x(x), on_result(result, y);
  gpu::launch(2, 64, saxpy, a, on_x, on_result, x.count());
  on_result.copy_back();
}
