// The allocator's segments: see Note [Segments], Note [Reserve].
#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace whisker::cuda {
namespace {

constexpr int64_t segment_step = int64_t{2} << 20;  // also the size of segments of small blocks

int64_t rounded_up(int64_t bytes) {
  return (bytes + segment_step - 1) / segment_step * segment_step;
}

/// Allows the capturing thread to allocate from the driver.
class MeantWhileCapturing {
 public:
  MeantWhileCapturing() {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "allocating device memory");
  }
  ~MeantWhileCapturing() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  MeantWhileCapturing(const MeantWhileCapturing&) = delete;
  MeantWhileCapturing& operator=(const MeantWhileCapturing&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

char* allocated_by_driver(int64_t bytes) {
  const MeantWhileCapturing meant;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // later calls must not see the error
    return nullptr;
  }
  check(error, "allocating device memory");
  return static_cast<char*>(memory);
}

Allocator::Blocks::iterator Allocator::grow(Pool pool, Kind kind, int64_t bytes, int64_t asked) {
  auto block = from_reserve(pool, kind, rounded_up(bytes));
  if (block == blocks_.end()) block = from_driver(pool, kind, bytes);
  if (block == blocks_.end() && !capturing_) {
    release_segments();
    block = from_driver(pool, kind, bytes);
  }
  if (block == blocks_.end()) exhausted(asked);
  return block;
}

// Extends a free block of the same pool and kind where the reserve is free behind it; else takes a
// whole block. A large request of the main pool has tried the reserve's blocks already.
Allocator::Blocks::iterator Allocator::from_reserve(Pool pool, Kind kind, int64_t bytes) {
  if (!reserve_) return blocks_.end();
  FreeList& list = free_[static_cast<size_t>(pool)][static_cast<size_t>(kind)];
  for (auto entry = list.rbegin(); entry != list.rend(); ++entry) {
    const auto block = blocks_.find(entry->second), behind = std::next(block);
    const int64_t missing = rounded_up(bytes - block->second.bytes);
    if (behind == blocks_.end() || behind->second.segment != block->second.segment ||
        !behind->second.free || behind->second.pool != Pool::main ||
        behind->second.kind != Kind::passing || behind->second.bytes < missing) {
      continue;
    }
    mark_used(block);
    mark_used(behind);
    split(behind, missing);
    block->second.bytes += missing;
    blocks_.erase(behind);
    return block;
  }
  const auto block = take_free(Pool::main, Kind::passing, bytes);
  if (block == blocks_.end()) return block;
  split(block, bytes);
  block->second.pool = pool;
  block->second.kind = kind;
  return block;
}

Allocator::Blocks::iterator Allocator::from_driver(Pool pool, Kind kind, int64_t bytes) {
  if (kind == Kind::passing) {
    if (GrowingSegment* const segment = growing(pool)) return extend(*segment, pool, bytes);
  }
  const int64_t size = rounded_up(bytes);
  char* const memory = fits(kind, size) ? allocated_by_driver(size) : nullptr;
  if (!memory) return blocks_.end();
  stats_.reserved += size;
  return new_block(memory, {.bytes = size, .segment = memory, .kind = kind, .pool = pool});
}

// The limit also holds for memory from the driver, except the rounding of small segments.
bool Allocator::fits(Kind kind, int64_t bytes) const {
  return options_.limit_bytes == 0 || kind == Kind::small ||
         bytes <= options_.limit_bytes - stats_.reserved;
}

// The pool's segment for large blocks; null where the GPU cannot map memory.
GrowingSegment* Allocator::growing(Pool pool) {
  GrowingSegment*& segment = growing_[static_cast<size_t>(pool)];
  if (segment || !maps_) return segment;
  const MeantWhileCapturing meant;
  auto made = GrowingSegment::on(context_.device());
  maps_ = made != nullptr;
  if (!made) return nullptr;
  segment = made.get();
  mapped_.emplace(segment->begin(), std::move(made));
  return segment;
}

// Grows the segment by what its last block, if free, lacks.
Allocator::Blocks::iterator Allocator::extend(GrowingSegment& segment, Pool pool, int64_t bytes) {
  const auto behind = blocks_.lower_bound(segment.end());
  const auto last = segment.bytes() > 0 ? std::prev(behind) : blocks_.end();
  const bool can_merge = last != blocks_.end() && last->second.free && last->second.pool == pool &&
                         last->second.kind == Kind::passing;
  const int64_t more = segment.rounded(can_merge ? bytes - last->second.bytes : bytes);
  if (!fits(Kind::passing, more)) return blocks_.end();
  char* const end = segment.end();
  {
    const MeantWhileCapturing meant;
    if (!segment.grow(more)) return blocks_.end();
  }
  stats_.reserved += more;
  if (can_merge) {
    mark_used(last);
    last->second.bytes += more;
    return last;
  }
  return new_block(
      end, {.bytes = more, .segment = segment.begin(), .kind = Kind::passing, .pool = pool});
}

void Allocator::take_reserve(int64_t bytes) {
  const int64_t segment = rounded_up(bytes);
  reserve_ = allocated_by_driver(segment);
  if (!reserve_ && !capturing_) {
    release_segments();
    reserve_ = allocated_by_driver(segment);
  }
  if (!reserve_) exhausted(segment);
  stats_.reserved += segment;
  put_back(new_block(
      reserve_,
      {.bytes = segment, .segment = reserve_, .kind = Kind::passing, .pool = Pool::main}));
}

// From now on an ordinary segment, whose adjacent free blocks are merged.
void Allocator::give_up_reserve() {
  if (!reserve_) return;
  std::vector<char*> parts;
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.segment != reserve_) continue;
    if (block->second.free) {
      mark_used(block);
      parts.push_back(block->first);
    }
    block->second.kind = Kind::passing;
  }
  reserve_ = nullptr;
  for (char* const address : parts) put_back(blocks_.find(address));
}

// Frees the unused segments of the main pool.
void Allocator::release_segments() {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    // A free block that starts a segment and has no neighbour in it is the whole segment.
    const bool whole = block->first == block->second.segment &&
                       (next == blocks_.end() || next->second.segment != block->first);
    if (whole && block->second.free && block->second.pool == Pool::main &&
        block->first != reserve_ && !mapped_.contains(block->first)) {
      check(cudaFree(block->first), "giving device memory back");
      stats_.reserved -= block->second.bytes;
      free_list(block->second).erase({block->second.bytes, block->first});
      blocks_.erase(block);
    }
    block = next;
  }
  for (auto entry = mapped_.begin(); entry != mapped_.end();) {
    const auto next = std::next(entry);
    GrowingSegment& segment = *entry->second;
    shorten(segment);
    const bool grows = std::ranges::find(growing_, &segment) != std::end(growing_);
    if (segment.bytes() == 0 && !grows) mapped_.erase(entry);
    entry = next;
  }
}

// Removes its last block, if that is free and of the main pool.
void Allocator::shorten(GrowingSegment& segment) {
  if (segment.bytes() == 0) return;
  const auto last = std::prev(blocks_.lower_bound(segment.end()));
  if (!last->second.free || last->second.pool != Pool::main) return;
  const int64_t before = segment.bytes();
  segment.shrink(last->first);
  const int64_t given_back = before - segment.bytes();
  if (given_back == 0) return;
  stats_.reserved -= given_back;
  mark_used(last);
  last->second.bytes -= given_back;
  if (last->second.bytes > 0) {
    mark_free(last);
  } else {
    blocks_.erase(last);
  }
}

void Allocator::empty_cache() {
  context_.enter();
  const std::lock_guard lock(mutex_);
  if (!capturing_) release_segments();
}

void Allocator::set_options(const MemoryOptions& options) {
  context_.enter();
  const std::lock_guard lock(mutex_);
  if (options.preallocate_bytes == 0) {
    give_up_reserve();
  } else if (!reserve_) {
    take_reserve(options.preallocate_bytes);
  }
  options_ = options;
}

}  // namespace whisker::cuda
