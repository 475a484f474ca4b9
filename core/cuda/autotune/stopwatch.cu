// Memory for timing, and random operands: one Philox block gives four numbers to one thread
// (core/tensor/philox.h).
#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/error.h"
#include "core/tensor/philox.h"

namespace whisker::cuda {

DriverMemory::DriverMemory(Allocator& allocator, int64_t bytes) {
  if (bytes <= 0) return;
  { const Scratch counted(allocator, 0); }  // counts as one of failing_allocation
  data_ = allocated_by_driver(bytes);
  if (data_) return;
  allocator.empty_cache();
  data_ = allocated_by_driver(bytes);
  if (!data_) throw OutOfMemory(fmt::format("{} bytes needed to time algorithms in", bytes), 0);
}

namespace kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(block_threads) noise_kernel(float most, T* y, int64_t count) {
  for (int64_t block = first_item(); block * 4 < count; block += item_step()) {
    const PhiloxBlock words = philox_block(/*seed=*/1, /*stream=*/0, static_cast<uint64_t>(block));
    for (int k = 0; k < 4 && block * 4 + k < count; ++k) {
      y[block * 4 + k] = from_f32<T>(most * (2 * uniform_from(words[k]) - 1));
    }
  }
}

}  // namespace

void noise(cudaStream_t stream, DType dtype, float most, void* y, int64_t count) {
  if (count == 0) return;
  visit_real(dtype, [&]<class T>() {
    launch_kernel(stream, "making random operands", grid_for((count + 3) / 4), noise_kernel<T>,
                  most, y, count);
  });
}

}  // namespace kernels
}  // namespace whisker::cuda
