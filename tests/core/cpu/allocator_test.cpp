// The caching allocator: books, reuse, limits, and blocks freed by another thread.
#include "core/cpu/support/allocator.h"

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/failing_new.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::cpu {
namespace {

constexpr auto category = MemoryCategory::gradients;

TEST(Allocator, CountsWhatIsHeld) {
  Allocator allocator;
  void* a = allocator.allocate(1000, category);
  void* b = allocator.allocate(3000000, MemoryCategory::input);
  MemoryStats stats = allocator.books().stats();
  EXPECT_EQ(stats.allocated, 3001000);
  EXPECT_EQ(stats.by_category[static_cast<size_t>(category)], 1000);
  EXPECT_GE(stats.reserved, stats.allocated);
  EXPECT_LE(stats.reserved, stats.allocated * 9 / 8 + 64);
  allocator.deallocate(b, 3000000, MemoryCategory::input);
  allocator.deallocate(a, 1000, category);
  stats = allocator.books().stats();
  EXPECT_EQ(stats.allocated, 0);
  EXPECT_EQ(stats.peak, 3001000);
  EXPECT_GT(stats.reserved, 0);
  allocator.empty_cache();
  EXPECT_EQ(allocator.books().stats().reserved, 0);
}

TEST(Allocator, ReusesBlocksOfOneSizeClass) {
  Allocator allocator;
  for (const int64_t bytes :
       {0, 1, 64, 65, 1000, 1024, 1025, 5000, 1 << 20, (1 << 20) + 1, 50000000}) {
    void* first = allocator.allocate(bytes, category);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u) << bytes;
    std::memset(first, 1, static_cast<size_t>(bytes));
    allocator.deallocate(first, bytes, category);
    void* second = allocator.allocate(bytes, category);
    EXPECT_EQ(first, second) << bytes;
    allocator.deallocate(second, bytes, category);
  }
}

// Memory is given back when there is none left, too.
TEST(Allocator, FreeingAsksForNoMemory) {
  Allocator allocator;
  std::vector<std::pair<void*, int64_t>> held;
  for (int64_t bytes = 1; bytes < 5000; bytes += 3) {
    held.emplace_back(allocator.allocate(bytes, category), bytes);
  }
  {
    const test::FailingNew failing(1);
    for (const auto& [memory, bytes] : held) allocator.deallocate(memory, bytes, category);
    allocator.empty_cache();
    EXPECT_FALSE(failing.failed());
  }
  EXPECT_EQ(allocator.books().stats().reserved, 0);
}

TEST(Allocator, KeepsToItsLimit) {
  Allocator allocator;
  allocator.books().set_options({.limit_bytes = 10000});
  void* a = allocator.allocate(6000, category);
  EXPECT_THROW(allocator.allocate(6000, category), Error);
  allocator.deallocate(a, 6000, category);
  allocator.deallocate(allocator.allocate(9000, category), 9000, category);
  EXPECT_EQ(allocator.books().stats().allocated, 0);
}

TEST(Allocator, RefusesWhatNoMachineHas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' own allocators stop the program instead of returning null";
#endif
  Allocator allocator;
  EXPECT_NE(
      test::message_of(ErrorKind::device, [&] { allocator.allocate(int64_t{1} << 60, category); }),
      "no error");
  EXPECT_EQ(allocator.books().stats().allocated, 0);
}

TEST(Allocator, BlocksTravelBetweenThreads) {
  Allocator allocator;
  constexpr int thread_count = 4;
  constexpr int rounds = 2000;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::pair<void*, int64_t>>> made(thread_count);
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const int64_t bytes = 16 + (i * 37 + t * 101) % 3000;
        auto* memory = static_cast<unsigned char*>(allocator.allocate(bytes, category));
        std::memset(memory, t, static_cast<size_t>(bytes));
        if (i % 3 == 0) {
          made[static_cast<size_t>(t)].emplace_back(memory, bytes);
        } else {
          for (int64_t b = 0; b < bytes; ++b) ASSERT_EQ(memory[b], t);
          allocator.deallocate(memory, bytes, category);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < made.size(); ++t) {
    for (const auto& [memory, bytes] : made[t]) {
      for (int64_t b = 0; b < bytes; ++b) ASSERT_EQ(static_cast<unsigned char*>(memory)[b], t);
      allocator.deallocate(memory, bytes, category);
    }
  }
  EXPECT_EQ(allocator.books().stats().allocated, 0);
  allocator.empty_cache();
  EXPECT_EQ(allocator.books().stats().reserved, 0);
}

}  // namespace
}  // namespace whisker::cpu
