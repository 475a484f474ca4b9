// The allocator's part for captures: see Note [Graph pool].
#include "core/cuda/memory/allocator.h"
#include "core/error.h"

namespace whisker::cuda {

int64_t Allocator::graph_pool_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [address, block] : blocks_) sum += block.pool == Pool::graph ? block.bytes : 0;
  return sum;
}

Allocator::CaptureScope::CaptureScope(Allocator& allocator) : allocator_(allocator) {
  const std::lock_guard lock(allocator.mutex_);
  if (allocator.capturing_) {
    fail(ErrorKind::internal, "cuda:{}: a capture runs already", allocator.context_.device());
  }
  allocator.capturing_ = true;
  allocator.capturer_ = std::this_thread::get_id();
}

Allocator::CaptureScope::~CaptureScope() {
  const std::lock_guard lock(allocator_.mutex_);
  allocator_.capturing_ = false;
}

Allocator::GraphMemory::GraphMemory(Allocator& allocator) : allocator_(allocator) {
  const std::lock_guard lock(allocator.mutex_);
  ++allocator.graphs_;
}

Allocator::GraphMemory::~GraphMemory() {
  const std::lock_guard lock(allocator_.mutex_);
  if (--allocator_.graphs_ == 0) allocator_.dissolve_graph_pool();
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

}  // namespace whisker::cuda
