// The ring of pinned memory.
#include "core/cuda/memory/staging.h"

#include "core/cuda/gpu/check.h"
#include "core/cuda/memory/fetch.h"

#include <algorithm>
#include <cstring>

namespace whisker::cuda {
namespace {

constexpr int64_t alignment = 256;
// Pinning memory takes time of its own, and what is larger than the ring goes through it in pieces.
constexpr int64_t smallest_ring = int64_t{4} << 20;
constexpr int64_t largest_ring = int64_t{16} << 20;

}  // namespace

Staging::~Staging() {
  for (const Part& part : parts_) cudaEventDestroy(part.copied);
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaFreeHost(ring_);
}

void Staging::upload(const void* host, void* device, int64_t bytes) {
  context_.enter();
  const std::lock_guard lock(mutex_);
  // A quarter at a time, so that one piece is filled while others are copied.
  if (bytes > size_ / 4 && size_ < largest_ring) grow(bytes);
  const int64_t piece = size_ / 4;
  for (int64_t done = 0; done < bytes; done += piece) {
    const int64_t count = std::min(piece, bytes - done);
    const int64_t begin = reserve(count);
    std::memcpy(ring_ + begin, static_cast<const char*>(host) + done, static_cast<size_t>(count));
    char* const target = static_cast<char*>(device) + done;
    if (count <= most_fetched) {
      fetch(context_.stream(), ring_ + begin, target, count);
    } else {
      check(cudaMemcpyAsync(target, ring_ + begin, static_cast<size_t>(count),
                            cudaMemcpyHostToDevice, context_.stream()),
            "copying to the GPU");
    }
    check(cudaEventRecord(parts_.back().copied, context_.stream()), "marking an upload");
  }
}

void Staging::grow(int64_t bytes) {
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

// Where `bytes` are free, at most a quarter of the ring; the last of parts_ stands for them.
int64_t Staging::reserve(int64_t bytes) {
  const int64_t length = (bytes + alignment - 1) / alignment * alignment;
  if (next_ + length > size_) next_ = 0;
  const int64_t begin = next_;
  next_ += length;
  const auto overlaps = [&](const Part& part) { return part.begin < next_ && begin < part.end; };
  while (std::any_of(parts_.begin(), parts_.end(), overlaps)) retire_first();
  cudaEvent_t event = nullptr;
  if (events_.empty()) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  } else {
    event = events_.back();
    events_.pop_back();
  }
  parts_.push_back({begin, next_, event});
  return begin;
}

void Staging::retire_first() {
  check(cudaEventSynchronize(parts_.front().copied), "waiting for an upload");
  events_.push_back(parts_.front().copied);
  parts_.pop_front();
}

}  // namespace whisker::cuda
