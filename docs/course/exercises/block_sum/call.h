// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_block_sum(gpu::View<const T> x, gpu::View<T> sums) {
  const gpu::Array<T> on_x(x), on_sums(sums);
  gpu::launch(sums.count(), 256, block_sum, on_x, on_sums, x.count());
  on_sums.copy_back();
}
