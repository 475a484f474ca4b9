// Best fit with merging, after Wilson et al., "Dynamic storage allocation: a survey and critical
// review" (1995), section 3.5. Segments are large because the driver's own allocations take
// microseconds and wait for the GPU.
#include "core/cuda/allocator.h"

#include "core/cuda/check.h"
#include "core/error.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

constexpr int64_t alignment = 256;
constexpr int64_t mebi = int64_t{1} << 20;
constexpr int64_t small_request = mebi;      // up to here from shared small segments
constexpr int64_t small_segment = 2 * mebi;  // also what larger segments are multiples of
constexpr int64_t middle_request = 10 * mebi;
constexpr int64_t middle_segment = 20 * mebi;  // for requests in between

int64_t rounded_up(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(mebi);
}

}  // namespace

Allocator::~Allocator() {
  // Only tests destroy an allocator, after their last tensor; a block still out is theirs to
  // answer.
  for (const auto& [address, block] : blocks_) {
    if (address == block.segment) cudaFree(address);
  }
}

void* Allocator::allocate(int64_t bytes, MemoryCategory category) {
  context_.enter();
  const std::lock_guard lock(mutex_);
  const bool failing = options_.failing_allocation > 0 && --options_.failing_allocation == 0;
  const bool over = options_.limit_bytes > 0 && bytes > options_.limit_bytes - stats_.allocated;
  if (failing || over || bytes > INT64_MAX / 2) exhausted(bytes);

  const int64_t wanted = rounded_up(std::max<int64_t>(bytes, 1), alignment);
  const Pool pool = capturing_here() ? Pool::graph : Pool::main;
  const SizeClass size_class = wanted <= small_request ? SizeClass::small : SizeClass::large;
  auto block = take_free(pool, size_class, wanted);
  if (block == blocks_.end()) block = grow(pool, size_class, wanted, bytes);
  split(block, wanted);

  stats_.allocated += bytes;
  stats_.by_category[static_cast<size_t>(category)] += bytes;
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  stats_.peak_tensors = std::max(stats_.peak_tensors, stats_.allocated - workspace_bytes());
  // All bits set is a NaN in every floating type.
  if (options_.poison && bytes > 0) {
    check(cudaMemsetAsync(block->first, 0xff, static_cast<size_t>(bytes), context_.stream()),
          "poisoning fresh memory");
  }
  return block->first;
}

void Allocator::deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept {
  if (!memory) return;
  const std::lock_guard lock(mutex_);
  stats_.allocated -= bytes;
  stats_.by_category[static_cast<size_t>(category)] -= bytes;
  const auto block = blocks_.find(static_cast<char*>(memory));
  if (capturing_here() && block->second.pool == Pool::main) {
    withheld_.push_back(block->first);
    return;
  }
  put_back(block);
}

Allocator::Blocks::iterator Allocator::take_free(Pool pool, SizeClass size_class, int64_t bytes) {
  FreeList& list = free_[static_cast<size_t>(pool)][static_cast<size_t>(size_class)];
  const auto best = list.lower_bound({bytes, nullptr});
  if (best == list.end()) return blocks_.end();
  const auto block = blocks_.find(best->second);
  list.erase(best);
  block->second.free = false;
  return block;
}

Allocator::Blocks::iterator Allocator::grow(Pool pool, SizeClass size_class, int64_t bytes,
                                            int64_t wanted) {
  int64_t segment = size_class == SizeClass::small ? small_segment
                    : bytes < middle_request       ? middle_segment
                                                   : rounded_up(bytes, small_segment);
  const int64_t smallest = rounded_up(bytes, small_segment);
  for (const int64_t size : {segment, smallest}) {
    const auto block = from_reserve(pool, size_class, size);
    if (block != blocks_.end()) return block;
  }
  // The limit holds for what is taken from the driver, too, but for the rounding of small segments.
  const auto fits = [&](int64_t size) {
    return options_.limit_bytes == 0 || size_class == SizeClass::small ||
           size <= options_.limit_bytes - stats_.reserved;
  };
  char* memory = fits(segment) ? from_driver(segment) : nullptr;
  if (!memory) {
    if (!capturing_) release_segments(Pool::main);
    segment = smallest;
    memory = fits(segment) ? from_driver(segment) : nullptr;
  }
  if (!memory) exhausted(wanted);
  stats_.reserved += segment;
  return blocks_
      .emplace(memory,
               Block{.bytes = segment, .segment = memory, .size_class = size_class, .pool = pool})
      .first;
}

// See Note [Reserve]. A large request of the main pool has looked among the reserve's blocks
// already.
Allocator::Blocks::iterator Allocator::from_reserve(Pool pool, SizeClass size_class,
                                                    int64_t bytes) {
  if (!reserve_) return blocks_.end();
  const auto block = take_free(Pool::main, SizeClass::large, bytes);
  if (block == blocks_.end()) return block;
  split(block, bytes);
  block->second.pool = pool;
  block->second.size_class = size_class;
  return block;
}

void Allocator::take_reserve(int64_t bytes) {
  const int64_t segment = rounded_up(bytes, small_segment);
  reserve_ = from_driver(segment);
  if (!reserve_) exhausted(segment);
  stats_.reserved += segment;
  put_back(blocks_
               .emplace(reserve_, Block{.bytes = segment,
                                        .segment = reserve_,
                                        .size_class = SizeClass::large,
                                        .pool = Pool::main})
               .first);
}

// A segment like any other from now on, whose free parts are one where they touch.
void Allocator::give_up_reserve() {
  if (!reserve_) return;
  std::vector<char*> parts;
  for (auto& [address, block] : blocks_) {
    if (block.segment != reserve_) continue;
    if (block.free && block.pool == Pool::main) {
      free_list(block).erase({block.bytes, address});
      block.free = false;
      parts.push_back(address);
    }
  }
  for (auto& [address, block] : blocks_) {
    if (block.segment == reserve_ && block.pool == Pool::main) block.size_class = SizeClass::large;
  }
  reserve_ = nullptr;
  for (char* const address : parts) put_back(blocks_.find(address));
}

// Null when the driver has no memory left. A capture forbids the capturing thread such calls unless
// it says that it means them.
char* Allocator::from_driver(int64_t bytes) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "allocating device memory");
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
  check(cudaThreadExchangeStreamCaptureMode(&mode), "allocating device memory");
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is no fault of what comes next
    return nullptr;
  }
  check(error, "allocating device memory");
  return static_cast<char*>(memory);
}

// Keeps the first `bytes` and gives the rest back.
void Allocator::split(Blocks::iterator block, int64_t bytes) {
  const int64_t rest = block->second.bytes - bytes;
  if (rest == 0) return;
  Block tail = block->second;
  tail.bytes = rest;
  tail.free = true;
  block->second.bytes = bytes;
  blocks_.emplace(block->first + bytes, tail);
  free_list(tail).emplace(rest, block->first + bytes);
}

void Allocator::put_back(Blocks::iterator block) {
  const auto absorb = [&](Blocks::iterator first, Blocks::iterator second) {
    first->second.bytes += second->second.bytes;
    blocks_.erase(second);
    return first;
  };
  const auto joins = [&](Blocks::iterator neighbour) {
    const Block& other = neighbour->second;
    return other.free && other.segment == block->second.segment &&
           other.pool == block->second.pool && other.size_class == block->second.size_class;
  };
  if (const auto next = std::next(block); next != blocks_.end() && joins(next)) {
    free_list(next->second).erase({next->second.bytes, next->first});
    block = absorb(block, next);
  }
  if (block != blocks_.begin()) {
    if (const auto previous = std::prev(block); joins(previous)) {
      free_list(previous->second).erase({previous->second.bytes, previous->first});
      block = absorb(previous, block);
    }
  }
  block->second.free = true;
  free_list(block->second).emplace(block->second.bytes, block->first);
}

// A free block that starts a segment and has no neighbour in it is the whole segment.
void Allocator::release_segments(Pool pool) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    const bool whole = block->first == block->second.segment &&
                       (next == blocks_.end() || next->second.segment != block->first);
    if (whole && block->second.free && block->second.pool == pool && block->first != reserve_) {
      check(cudaFree(block->first), "giving device memory back");
      stats_.reserved -= block->second.bytes;
      free_list(block->second).erase({block->second.bytes, block->first});
      blocks_.erase(block);
    }
    block = next;
  }
}

void Allocator::empty_cache() {
  context_.enter();
  const std::lock_guard lock(mutex_);
  if (!capturing_) release_segments(Pool::main);
}

void Allocator::set_options(const MemoryOptions& options) {
  context_.enter();
  const std::lock_guard lock(mutex_);
  options_ = options;
  if (options.preallocate_bytes == 0) {
    give_up_reserve();
  } else if (!reserve_) {
    take_reserve(options.preallocate_bytes);
  }
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
  stats_.peak_tensors = stats_.allocated - workspace_bytes();
}

void Allocator::exhausted(int64_t bytes) const {
  std::string holders;
  for (int i = 0; i < memory_category_count; ++i) {
    const int64_t held = stats_.by_category[static_cast<size_t>(i)];
    if (held == 0) continue;
    holders += fmt::format("{}{} {:.1f}", holders.empty() ? "" : ", ",
                           name_of(static_cast<MemoryCategory>(i)), mebibytes(held));
  }
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const int64_t limit = options_.limit_bytes;
  throw OutOfMemory(
      fmt::format("cuda:{}: out of memory: {:.1f} MiB needed, {:.1f} MiB held ({}), {:.1f} MiB "
                  "taken from the driver, {:.1f} of {:.1f} MiB free on the GPU{}. Lower "
                  "train.batch_size or the picture size.",
                  context_.device(), mebibytes(bytes), mebibytes(stats_.allocated),
                  holders.empty() ? "nothing" : holders, mebibytes(stats_.reserved),
                  mebibytes(static_cast<int64_t>(free)), mebibytes(static_cast<int64_t>(total)),
                  limit > 0 ? fmt::format(", limit {:.1f} MiB", mebibytes(limit)) : std::string()),
      limit > 0 ? limit : stats_.reserved + static_cast<int64_t>(free));
}

}  // namespace whisker::cuda
