#include "tests/support/failing_new.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace whisker::test {
namespace {

std::atomic<bool> armed = false;
std::atomic<int64_t> uses = 0;
int64_t first_failing = 0;
int64_t last_failing = 0;

void* allocate(size_t bytes, size_t alignment) {
  if (armed.load(std::memory_order_acquire)) {
    const int64_t use = ++uses;
    if (use >= first_failing && use <= last_failing) throw std::bad_alloc();
  }
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

FailingNew::FailingNew(int64_t first, int64_t count) {
  uses = 0;
  first_failing = first;
  last_failing = count < std::numeric_limits<int64_t>::max() - first ? first + count - 1 : count;
  armed.store(true, std::memory_order_release);
}

FailingNew::~FailingNew() {
  armed = false;
}

bool FailingNew::failed() const {
  return uses >= first_failing;
}

}  // namespace whisker::test

void* operator new(size_t bytes) {
  return whisker::test::allocate(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return whisker::test::allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return whisker::test::allocate(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
