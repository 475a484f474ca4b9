// Best fit with merging, after Wilson et al., "Dynamic storage allocation: a survey and critical
// review" (1995), section 3.5.
#include "core/cuda/memory/allocator.h"

#include "core/cuda/runtime/check.h"
#include "core/error.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

constexpr int64_t alignment = 256;
constexpr int64_t mebi = int64_t{1} << 20;
constexpr int64_t small_request = mebi;  // at most this: from shared small segments

int64_t rounded_up(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

bool passes(MemoryCategory category) {
  return category == MemoryCategory::activations || category == MemoryCategory::workspace;
}

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(mebi);
}

}  // namespace

Allocator::~Allocator() {
  // Only tests destroy an allocator, after their last tensor.
  for (const auto& [address, block] : blocks_) {
    if (address == block.segment && !mapped_.contains(address)) cudaFree(address);
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
  const Kind kind = wanted <= small_request        ? Kind::small
                    : passes(category) || reserve_ ? Kind::passing
                                                   : Kind::lasting;
  auto block = take_free(pool, kind, wanted);
  if (block == blocks_.end()) block = grow(pool, kind, wanted, bytes);
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
    block->second.withheld = true;
    return;
  }
  put_back(block);
}

Allocator::Blocks::iterator Allocator::take_free(Pool pool, Kind kind, int64_t bytes) {
  FreeList& list = free_[static_cast<size_t>(pool)][static_cast<size_t>(kind)];
  const auto best = list.lower_bound({bytes, nullptr});
  if (best == list.end()) return blocks_.end();
  const auto block = blocks_.find(best->second);
  mark_used(block);
  return block;
}

Allocator::Blocks::iterator Allocator::new_block(char* address, Block block) {
  FreeList one;
  one.emplace(0, nullptr);
  block.entry = one.extract(one.begin());
  return blocks_.emplace(address, std::move(block)).first;
}

void Allocator::mark_free(Blocks::iterator block) noexcept {
  block->second.entry.value() = {block->second.bytes, block->first};
  free_list(block->second).insert(std::move(block->second.entry));
  block->second.free = true;
}

void Allocator::mark_used(Blocks::iterator block) noexcept {
  block->second.entry = free_list(block->second).extract({block->second.bytes, block->first});
  block->second.free = false;
}

// Keeps the first `bytes` and frees the rest.
void Allocator::split(Blocks::iterator block, int64_t bytes) {
  const int64_t rest = block->second.bytes - bytes;
  if (rest == 0) return;
  const Block& whole = block->second;
  const auto tail =
      new_block(block->first + bytes,
                {.bytes = rest, .segment = whole.segment, .kind = whole.kind, .pool = whole.pool});
  block->second.bytes = bytes;
  mark_free(tail);
}

// Merges the block with its free neighbours and returns the result.
Allocator::Blocks::iterator Allocator::put_back(Blocks::iterator block) noexcept {
  block->second.withheld = false;
  const auto absorb = [&](Blocks::iterator first, Blocks::iterator second) {
    first->second.bytes += second->second.bytes;
    blocks_.erase(second);
    return first;
  };
  const auto can_merge = [&](Blocks::iterator neighbour) {
    const Block& other = neighbour->second;
    return other.free && other.segment == block->second.segment &&
           other.pool == block->second.pool && other.kind == block->second.kind;
  };
  if (const auto next = std::next(block); next != blocks_.end() && can_merge(next)) {
    mark_used(next);
    block = absorb(block, next);
  }
  if (block != blocks_.begin()) {
    if (const auto previous = std::prev(block); can_merge(previous)) {
      mark_used(previous);
      block = absorb(previous, block);
    }
  }
  mark_free(block);
  return block;
}

int64_t Allocator::graph_pool_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [address, block] : blocks_) sum += block.pool == Pool::graph ? block.bytes : 0;
  return sum;
}

Allocator::GraphMemory::GraphMemory(Allocator& allocator) : allocator_(allocator) {
  const std::lock_guard lock(allocator.mutex_);
  ++allocator.graphs_;
}

Allocator::GraphMemory::~GraphMemory() {
  const std::lock_guard lock(allocator_.mutex_);
  if (--allocator_.graphs_ == 0) allocator_.dissolve_graph_pool();
}

void Allocator::GraphMemory::capture(const std::function<void()>& work) {
  const auto set_capturing = [&](bool capturing) {
    const std::lock_guard lock(allocator_.mutex_);
    if (capturing && allocator_.capturing_) {
      fail(ErrorKind::internal, "cuda:{}: a capture runs already", allocator_.context_.device());
    }
    allocator_.capturing_ = capturing;
    allocator_.capturer_ = std::this_thread::get_id();
  };
  set_capturing(true);
  try {
    work();
  } catch (...) {
    set_capturing(false);
    throw;
  }
  set_capturing(false);
}

void Allocator::dissolve_graph_pool() {
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.pool != Pool::graph) continue;
    if (block->second.free) {
      mark_used(block);
      block->second.withheld = true;
    }
    block->second.pool = Pool::main;
  }
  growing_[static_cast<size_t>(Pool::graph)] = nullptr;
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.withheld) block = put_back(block);
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
                  "taken from the driver, {:.1f} of {:.1f} MiB free on the GPU{}. {}",
                  context_.device(), mebibytes(bytes), mebibytes(stats_.allocated),
                  holders.empty() ? "nothing" : holders, mebibytes(stats_.reserved),
                  mebibytes(static_cast<int64_t>(free)), mebibytes(static_cast<int64_t>(total)),
                  limit > 0 ? fmt::format(", limit {:.1f} MiB", mebibytes(limit)) : std::string(),
                  memory_remedy),
      limit > 0 ? limit : stats_.reserved + static_cast<int64_t>(free));
}

}  // namespace whisker::cuda
