// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_row_sum(gpu::View<const T> x, gpu::View<T> sums) {
  const int columns = x.extent(1);
  const gpu::Array<T> on_x(x), on_sums(sums);
  gpu::launch(x.extent(0), 32, row_sum, on_x, on_sums, columns);
  on_sums.copy_back();
  if (gpu::is_right(sums, [&](int row) {
        double sum = 0;
        for (int i = 0; i < columns; ++i) sum += static_cast<double>(x(row, i));
        return sum;
      })) {
    gpu::demand_coalesced();
  }
}
