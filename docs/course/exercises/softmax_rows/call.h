// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_softmax_rows(gpu::View<const T> x, gpu::View<T> y) {
  const gpu::Array<T> on_x(x), on_y(y);
  gpu::launch(x.extent(0), 128, softmax_rows, on_x, on_y, x.extent(1));
  on_y.copy_back();
}
