// blockIdx.y is the copy; the blocks along x share its words.
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/recurrent/cudnn/batched_copy.h"
#include "core/cuda/runtime/check.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

constexpr int most_copies = 64;  // of one kernel: its arguments take at most 4 KiB

struct Batch {
  const void* from[most_copies];
  void* to[most_copies];
  int64_t words[most_copies];
};

template <class Word>
__global__ void __launch_bounds__(block_threads) batched_copy_kernel(Batch batch) {
  const auto* from = static_cast<const Word*>(batch.from[blockIdx.y]);
  auto* to = static_cast<Word*>(batch.to[blockIdx.y]);
  const int64_t words = batch.words[blockIdx.y];
  for (int64_t i = first_item(); i < words; i += item_step()) to[i] = from[i];
}

template <class Word>
void launch(std::span<const Copy> copies, CopyDirection direction, cudaStream_t stream) {
  Batch batch{};
  int64_t longest = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    const bool pack = direction == CopyDirection::pack;
    batch.from[i] = pack ? copy.unpacked : copy.packed;
    batch.to[i] = pack ? copy.packed : copy.unpacked;
    batch.words[i] = copy.bytes / static_cast<int64_t>(sizeof(Word));
    longest = std::max(longest, batch.words[i]);
  }
  const dim3 grid(std::min(grid_for(longest), 64u), static_cast<unsigned>(copies.size()));
  batched_copy_kernel<Word><<<grid, block_threads, 0, stream>>>(batch);
}

bool aligned_to_16(std::span<const Copy> copies) {
  return std::all_of(copies.begin(), copies.end(), [](const Copy& copy) {
    const auto all = reinterpret_cast<uintptr_t>(copy.unpacked) |
                     reinterpret_cast<uintptr_t>(copy.packed) | static_cast<uintptr_t>(copy.bytes);
    return all % 16 == 0;
  });
}

}  // namespace

void batched_copy(std::span<const Copy> copies, CopyDirection direction, cudaStream_t stream) {
  while (!copies.empty()) {
    const auto some = copies.first(std::min(copies.size(), size_t{most_copies}));
    if (aligned_to_16(some)) {
      launch<uint4>(some, direction, stream);
    } else {
      launch<uint16_t>(some, direction, stream);
    }
    copies = copies.subspan(some.size());
  }
  check_launch("batched_copy");
}

}  // namespace whisker::cuda
