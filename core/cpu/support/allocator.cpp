// Size bins: multiples of 64 bytes up to 1 KiB, then eight steps per power of two, so that rounding
// wastes at most an eighth. Blocks from 2 MiB on ask the system for huge pages.
#include "core/cpu/support/allocator.h"

#include "core/error.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace whisker::cpu {
namespace {

constexpr int64_t alignment = 64;
constexpr int64_t small_limit = 1024;
constexpr int small_bins = static_cast<int>(small_limit / alignment);
constexpr int64_t huge_page = int64_t{2} << 20;

// AddressSanitizer treats cached memory as out of bounds until it is allocated again.
void forbid([[maybe_unused]] void* memory, [[maybe_unused]] int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(memory, static_cast<size_t>(bytes));
#endif
}
void permit([[maybe_unused]] void* memory, [[maybe_unused]] int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<size_t>(bytes));
#endif
}

struct SizeClass {
  int bin;
  int64_t bytes;
};

SizeClass size_class(int64_t bytes) {
  if (bytes <= small_limit) {
    const int64_t units = bytes <= 0 ? 1 : (bytes + alignment - 1) / alignment;
    return {static_cast<int>(units) - 1, units * alignment};
  }
  // 2^exponent < bytes <= 2^(exponent + 1), in steps of an eighth.
  const int exponent = 63 - std::countl_zero(static_cast<uint64_t>(bytes - 1));
  const int64_t base = int64_t{1} << exponent;
  const int64_t step = base / 8;
  const int64_t steps = (bytes - base + step - 1) / step;
  return {small_bins + (exponent - 10) * 8 + static_cast<int>(steps) - 1, base + steps * step};
}

}  // namespace

void Allocator::FreeBlocks::push(void* memory) noexcept {
  std::memcpy(memory, &first, sizeof first);
  // Except the link: LeakSanitizer follows no pointers in out-of-bounds memory.
  forbid(static_cast<std::byte*>(memory) + sizeof first, bytes - int64_t{sizeof first});
  first = memory;
}

void* Allocator::FreeBlocks::pop() noexcept {
  void* const memory = first;
  if (!memory) return nullptr;
  std::memcpy(&first, memory, sizeof first);
  return memory;
}

Allocator::~Allocator() {
  empty_cache();
}

void* Allocator::from_system(int64_t bytes) {
  void* memory = nullptr;
  try {
    memory = books_.take(bytes);
  } catch (const Error&) {
    empty_cache();
    memory = books_.take(bytes);
  }
  if (bytes >= huge_page) {
    // Only whole pages, of up to 64 KiB on ARM; the system may refuse.
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (address + page - 1) / page * page;
    const uintptr_t last = (address + static_cast<uintptr_t>(bytes)) / page * page;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  }
  return memory;
}

void* Allocator::allocate(int64_t bytes, MemoryCategory category) {
  books_.charge(bytes, category);
  const SizeClass size = size_class(bytes);
  void* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    memory = bins_[static_cast<size_t>(size.bin)].pop();
  }
  if (!memory) {
    try {
      memory = from_system(size.bytes);
    } catch (...) {
      books_.release(bytes, category);
      throw;
    }
  }
  permit(memory, bytes);
  books_.poison(memory, bytes);
  return memory;
}

void Allocator::deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept {
  if (!memory) return;
  books_.release(bytes, category);
  const SizeClass size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  FreeBlocks& blocks = bins_[static_cast<size_t>(size.bin)];
  blocks.bytes = size.bytes;
  blocks.push(memory);
}

void Allocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  for (FreeBlocks& blocks : bins_) {
    while (void* const memory = blocks.pop()) {
      permit(memory, blocks.bytes);
      books_.give(memory, blocks.bytes);
    }
  }
}

}  // namespace whisker::cpu
