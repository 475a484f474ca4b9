#include "core/cuda/autotune/driver_memory.h"

#include "core/error.h"

namespace whisker::cuda {
namespace {

double mebibytes(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

DriverMemory::DriverMemory(Allocator& allocator, int64_t bytes) {
  if (bytes <= 0) return;
  { const Scratch counted(allocator, 0); }  // counts as one of failing_allocation
  data_ = allocated_by_driver(bytes);
  if (data_) return;
  allocator.empty_cache();
  data_ = allocated_by_driver(bytes);
  if (data_) return;
  int device = 0;
  cudaGetDevice(&device);
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw OutOfMemory(
      fmt::format("cuda:{}: out of memory: {:.1f} MiB needed to time algorithms in, {:.1f} of "
                  "{:.1f} MiB free on the GPU. {}",
                  device, mebibytes(static_cast<size_t>(bytes)), mebibytes(free), mebibytes(total),
                  memory_remedy),
      allocator.stats().reserved + static_cast<int64_t>(free));
}

DriverMemory::~DriverMemory() {
  cudaFree(data_);
}

bool can_allocate(Allocator& allocator, int64_t bytes) {
  try {
    const Scratch probe(allocator, bytes);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

}  // namespace whisker::cuda
