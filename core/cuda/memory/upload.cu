// The ring of pinned memory, and the kernel of small uploads. The kernel reads host memory through
// unified addressing (CUDA C++ Programming Guide, "Mapped Memory"): whole words where the target is
// aligned, then the remaining bytes.
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/upload.h"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace whisker::cuda {
namespace {

constexpr int64_t alignment = 256;
// Pinning memory takes time; an upload larger than the ring is split into parts.
constexpr int64_t smallest_ring = int64_t{4} << 20;
constexpr int64_t largest_ring = int64_t{16} << 20;
// Up to this size a kernel is as fast as a copy engine, which would finish earlier copies of other
// streams first: a step would wait for the images of a later one.
constexpr int64_t most_by_kernel = int64_t{64} << 10;

/// `pinned` is 16-byte aligned.
__global__ void __launch_bounds__(block_threads)
    copy_kernel(const uint8_t* pinned, uint8_t* device, int64_t bytes) {
  constexpr auto width = static_cast<int64_t>(sizeof(uint4));
  const int64_t words = reinterpret_cast<uintptr_t>(device) % width == 0 ? bytes / width : 0;
  const int64_t first = int64_t{blockIdx.x} * block_threads + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * block_threads;
  for (int64_t i = first; i < words; i += step) {
    reinterpret_cast<uint4*>(device)[i] = reinterpret_cast<const uint4*>(pinned)[i];
  }
  for (int64_t i = words * width + first; i < bytes; i += step) device[i] = pinned[i];
}

}  // namespace

void Uploader::upload(const void* host, void* device, int64_t bytes) {
  context_.enter();
  const std::lock_guard lock(mutex_);
  // A quarter at a time: one is filled while others are copied.
  if (bytes > size_ / 4 && size_ < largest_ring) grow(bytes);
  const int64_t part = size_ / 4;
  for (int64_t done = 0; done < bytes; done += part) {
    const int64_t count = std::min(part, bytes - done);
    const int64_t begin = reserve(count);
    std::memcpy(ring_ + begin, static_cast<const char*>(host) + done, static_cast<size_t>(count));
    char* const target = static_cast<char*>(device) + done;
    if (count <= most_by_kernel) {
      launch_kernel(context_.stream(), "upload", grid_for(count / int64_t{sizeof(uint4)}),
                    copy_kernel, static_cast<void*>(ring_ + begin), static_cast<void*>(target),
                    count);
    } else {
      check(cudaMemcpyAsync(target, ring_ + begin, static_cast<size_t>(count),
                            cudaMemcpyHostToDevice, context_.stream()),
            "copying to the GPU");
    }
    parts_.back().copied->record(context_.stream());
  }
}

void Uploader::grow(int64_t bytes) {
  while (!parts_.empty()) retire_first();
  check(cudaFreeHost(ring_), "freeing pinned memory");
  ring_ = nullptr;
  const int64_t wanted = std::clamp(bytes * 4, smallest_ring, largest_ring);
  size_ = (wanted + alignment - 1) / alignment * alignment;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<size_t>(size_), cudaHostAllocDefault),
        "allocating pinned memory");
  ring_ = static_cast<char*>(memory);
  next_ = 0;
}

// The offset of `bytes` free bytes, at most a quarter of the ring; appends them to parts_.
int64_t Uploader::reserve(int64_t bytes) {
  const int64_t length = (bytes + alignment - 1) / alignment * alignment;
  if (next_ + length > size_) next_ = 0;
  const int64_t begin = next_;
  next_ += length;
  const auto overlaps = [&](const Part& part) { return part.begin < next_ && begin < part.end; };
  while (std::any_of(parts_.begin(), parts_.end(), overlaps)) retire_first();
  parts_.push_back({begin, next_, events_.take_or_make()});
  return begin;
}

void Uploader::retire_first() {
  parts_.front().copied->wait();
  events_.give(std::move(parts_.front().copied));
  parts_.pop_front();
}

}  // namespace whisker::cuda
