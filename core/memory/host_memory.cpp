// The books' counters are relaxed atomics: loader threads allocate too.
#include "core/memory/host_memory.h"

#include "core/error.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace whisker {
namespace {

constexpr int64_t alignment = 64;

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

void raise(std::atomic<int64_t>& peak, int64_t to) {
  int64_t now = peak.load(std::memory_order_relaxed);
  while (to > now && !peak.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

SystemMemory system_memory() {
  SystemMemory memory;
  const auto take = [](const std::string& line, std::string_view key, int64_t& bytes) {
    if (line.starts_with(key)) bytes = std::atoll(line.c_str() + key.size()) * 1024;
  };
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    take(line, "MemTotal:", memory.total);
    take(line, "MemAvailable:", memory.available);
  }
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident_pages = 0;
  if (statm >> pages >> resident_pages) memory.resident = resident_pages * sysconf(_SC_PAGESIZE);
  return memory;
}

int64_t HostMemory::held_as(MemoryCategory category) const {
  return by_category_[static_cast<size_t>(category)].load(std::memory_order_relaxed);
}

void HostMemory::charge(int64_t bytes, MemoryCategory category) {
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  if (failing_.load(std::memory_order_relaxed) > 0 &&
      failing_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    exhausted(bytes);
  }
  const int64_t before = allocated_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit > 0 && bytes > limit - before) {
    allocated_.fetch_sub(bytes, std::memory_order_relaxed);
    exhausted(bytes);
  }
  by_category_[static_cast<size_t>(category)].fetch_add(bytes, std::memory_order_relaxed);
  raise(peak_, before + bytes);
  if (category != MemoryCategory::workspace) {
    raise(peak_tensors_, before + bytes - held_as(MemoryCategory::workspace));
  }
}

void HostMemory::release(int64_t bytes, MemoryCategory category) {
  allocated_.fetch_sub(bytes, std::memory_order_relaxed);
  by_category_[static_cast<size_t>(category)].fetch_sub(bytes, std::memory_order_relaxed);
}

void* HostMemory::take(int64_t bytes) {
  const int64_t rounded = bytes <= 0 ? alignment : bytes;
  if (rounded > INT64_MAX - alignment) exhausted(bytes);
  void* memory = std::aligned_alloc(
      alignment, static_cast<size_t>((rounded + alignment - 1) / alignment * alignment));
  if (!memory) exhausted(bytes);
  reserved_.fetch_add(bytes, std::memory_order_relaxed);
  return memory;
}

void HostMemory::give(void* memory, int64_t bytes) {
  std::free(memory);
  reserved_.fetch_sub(bytes, std::memory_order_relaxed);
}

void HostMemory::poison(void* memory, int64_t bytes) const {
  // All bits set is a NaN in every floating type.
  if (poison_.load(std::memory_order_relaxed)) {
    std::memset(memory, 0xff, static_cast<size_t>(bytes));
  }
}

void HostMemory::set_options(const MemoryOptions& options) {
  limit_.store(options.limit_bytes, std::memory_order_relaxed);
  poison_.store(options.poison, std::memory_order_relaxed);
  failing_.store(options.failing_allocation, std::memory_order_relaxed);
}

MemoryStats HostMemory::stats() const {
  MemoryStats stats{.allocated = allocated_.load(),
                    .reserved = reserved_.load(),
                    .peak = peak_.load(),
                    .peak_tensors = peak_tensors_.load()};
  for (size_t i = 0; i < by_category_.size(); ++i) stats.by_category[i] = by_category_[i].load();
  return stats;
}

void HostMemory::reset_peak() {
  peak_.store(allocated_.load());
  peak_tensors_.store(allocated_.load() - held_as(MemoryCategory::workspace));
}

void HostMemory::exhausted(int64_t bytes) const {
  std::string holders;
  for (int i = 0; i < memory_category_count; ++i) {
    const int64_t held = held_as(static_cast<MemoryCategory>(i));
    if (held == 0) continue;
    holders += fmt::format("{}{} {:.1f}", holders.empty() ? "" : ", ",
                           name_of(static_cast<MemoryCategory>(i)), mebibytes(held));
  }
  const int64_t limit = limit_.load(), held = allocated_.load();
  const int64_t free = limit > 0 ? limit - held : system_memory().available;
  throw OutOfMemory(
      fmt::format(
          "{}: out of memory: {:.1f} MiB needed, {:.1f} MiB held ({}), {:.1f} MiB free{}. {}",
          device_, mebibytes(bytes), mebibytes(held), holders.empty() ? "nothing" : holders,
          mebibytes(free),
          limit > 0 ? fmt::format(", limit {:.1f} MiB", mebibytes(limit)) : std::string(),
          memory_remedy),
      held + free);
}

}  // namespace whisker
