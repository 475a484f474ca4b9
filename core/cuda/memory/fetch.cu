// The kernel reads host memory itself, through unified addressing (CUDA C++ Programming Guide,
// "Mapped Memory"): whole words where the target is aligned, then the bytes that are left.
#include "core/cuda/device/launch.h"
#include "core/cuda/gpu/check.h"
#include "core/cuda/memory/fetch.h"

namespace whisker::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(block_threads)
    fetch_words(const uint8_t* pinned, uint8_t* device, int64_t bytes) {
  constexpr auto width = static_cast<int64_t>(sizeof(Word));
  const int64_t words = bytes / width;
  const int64_t first = int64_t{blockIdx.x} * block_threads + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * block_threads;
  for (int64_t i = first; i < words; i += step) {
    reinterpret_cast<Word*>(device)[i] = reinterpret_cast<const Word*>(pinned)[i];
  }
  for (int64_t i = words * width + first; i < bytes; i += step) device[i] = pinned[i];
}

}  // namespace

void fetch(cudaStream_t stream, const void* pinned, void* device, int64_t bytes) {
  const auto* const from = static_cast<const uint8_t*>(pinned);
  auto* const to = static_cast<uint8_t*>(device);
  const auto address = reinterpret_cast<uintptr_t>(device);
  if (address % sizeof(uint4) == 0) {
    fetch_words<uint4><<<grid_for(bytes / 16), block_threads, 0, stream>>>(from, to, bytes);
  } else if (address % sizeof(uint32_t) == 0) {
    fetch_words<uint32_t><<<grid_for(bytes / 4), block_threads, 0, stream>>>(from, to, bytes);
  } else {
    fetch_words<uint8_t><<<grid_for(bytes), block_threads, 0, stream>>>(from, to, bytes);
  }
  check_launch("fetch");
}

}  // namespace whisker::cuda
