// Included behind the answer, for each answer of the tests again: no include guard.
#include "gpu/launch.h"

template <class T>
void launch_histogram(gpu::View<const int> values, gpu::View<T> counts) {
  const int n = values.count();
  const gpu::Array<int> on_values(values);
  const gpu::Array<T> on_counts(counts, {counts.data, counts.extents, counts.rank, counts.name});
  gpu::launch((n + 63) / 64, 64, histogram, on_values, on_counts, n, counts.count());
  on_counts.copy_back();
}
