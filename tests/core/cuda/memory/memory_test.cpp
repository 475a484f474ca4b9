// The allocator of device memory: reuse, merging, limits and the words of an exhausted GPU.
#include "core/backend/elementwise.h"
#include "core/backend/memory_summary.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/error_of.h"

#include <cstring>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t mebibyte = int64_t{1} << 20;
constexpr auto workspace_category = MemoryCategory::workspace;

class CudaMemory : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) backend().empty_cache();
  }
  Backend& backend() { return backend_of(gpu); }
  void* allocate(int64_t bytes) { return backend().allocate(bytes, workspace_category); }
  void free(void* memory, int64_t bytes) {
    backend().deallocate(memory, bytes, workspace_category);
  }
  int64_t reserved() { return backend().memory_stats().reserved; }
};

TEST_F(CudaMemory, BlocksAreAlignedDisjointAndReused) {
  const int64_t sizes[] = {0,       1,        255,          256,          257,          1000,
                           100'000, mebibyte, mebibyte + 1, 5 * mebibyte, 30 * mebibyte};
  std::vector<std::pair<char*, int64_t>> blocks;
  for (const int64_t bytes : sizes) {
    char* const at = static_cast<char*>(allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 256, 0u) << bytes;
    for (const auto& [other, length] : blocks) {
      EXPECT_TRUE(at + bytes <= other || other + length <= at) << bytes << " overlaps " << length;
    }
    blocks.emplace_back(at, bytes);
  }
  const int64_t grown = reserved();
  for (const auto& [at, bytes] : blocks) free(at, bytes);
  EXPECT_EQ(reserved(), grown);
  for (const int64_t bytes : sizes) free(allocate(bytes), bytes);
  EXPECT_EQ(reserved(), grown) << "cached blocks were not used";
  backend().empty_cache();
  EXPECT_LT(reserved(), grown);
}

TEST_F(CudaMemory, FreedNeighboursMerge) {
  std::vector<void*> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(allocate(2 * mebibyte));
  const int64_t grown = reserved();
  for (const size_t i : {1, 3, 5, 7, 0, 2, 8, 6, 4}) free(blocks[i], 2 * mebibyte);
  free(allocate(18 * mebibyte), 18 * mebibyte);
  EXPECT_EQ(reserved(), grown) << "18 MiB were free and adjacent";
}

// Where the GPU can map memory, as every one since compute capability 6.0 can.
TEST_F(CudaMemory, LargeBlocksAreOneSegmentThatGrowsAndShrinksAtItsEnd) {
  void* const first = allocate(30 * mebibyte);
  void* const second = allocate(30 * mebibyte);
  const int64_t two = reserved();
  free(second, 30 * mebibyte);
  void* const wider = allocate(50 * mebibyte);
  EXPECT_EQ(reserved(), two + 20 * mebibyte) << "30 MiB were free at the end";
  free(wider, 50 * mebibyte);
  backend().empty_cache();
  EXPECT_LT(reserved(), two) << "80 MiB were mapped in chunks of at most 32";
  const Tensor x = full({15 << 18}, 3, {.device = gpu});  // in the remapped part
  EXPECT_EQ(max(x).item(), 3);
  free(first, 30 * mebibyte);
}

TEST_F(CudaMemory, AGraphReservesWhatItHoldsAtItsPeak) {
  backend().empty_cache();
  const int64_t before = reserved();
  const auto graph = backend().capture([&] {
    for (int64_t size = 10; size <= 80; size += 10) {  // none fits in the previous one's block
      empty({size << 18}, {.device = gpu}).fill_(1);
    }
  });
  graph->replay();
  backend().synchronize();
  EXPECT_GE(reserved(), before + 80 * mebibyte);
  EXPECT_LE(reserved(), before + 84 * mebibyte);
  EXPECT_LE(memory_summary(gpu).graph_pool, 84 * mebibyte);
}

TEST_F(CudaMemory, TheLimitHoldsForHeldAndForReservedMemory) {
  const int64_t held = backend().memory_stats().allocated;
  backend().set_memory_options({.limit_bytes = held + 64 * mebibyte});
  EXPECT_THROW(allocate(65 * mebibyte), Error);
  void* const most = allocate(40 * mebibyte);
  EXPECT_THROW(allocate(30 * mebibyte), Error);
  EXPECT_LE(reserved(), held + 64 * mebibyte);
  free(most, 40 * mebibyte);
  // The cache is given back before another size is refused.
  free(allocate(50 * mebibyte), 50 * mebibyte);
  backend().set_memory_options({});
}

TEST_F(CudaMemory, AReserveServesEverySizeAndGraphs) {
  const int64_t before = reserved();
  constexpr int64_t reserve = 512 * mebibyte;
  backend().set_memory_options({.preallocate_bytes = reserve});
  EXPECT_EQ(reserved(), before + reserve);
  const int64_t sizes[] = {1000, 3 * mebibyte, 30 * mebibyte, 100 * mebibyte};
  std::vector<void*> blocks;
  for (const int64_t bytes : sizes) blocks.push_back(allocate(bytes));
  const Tensor x = ones({10 << 20}, {.device = gpu});
  {
    const Tensor y = ones({15 << 20}, {.device = gpu});
    const auto graph = backend().capture([&] { add(x, x); });
    const auto larger = backend().capture([&] { add(y, y); });
    graph->replay();
    larger->replay();
    backend().synchronize();
    EXPECT_EQ(reserved(), before + reserve) << "the graphs' memory is the reserve's, too";
    EXPECT_GE(memory_summary(gpu).graph_pool, 60 * mebibyte);
    EXPECT_LE(memory_summary(gpu).graph_pool, 64 * mebibyte)
        << "the larger one took what it lacked";
  }
  for (size_t i = 0; i < blocks.size(); ++i) free(blocks[i], sizes[i]);
  backend().empty_cache();
  EXPECT_EQ(reserved(), before + reserve) << "it is kept";
  free(allocate(300 * mebibyte), 300 * mebibyte);
  EXPECT_EQ(reserved(), before + reserve) << "the blocks have merged again";
  backend().set_memory_options({});
}

TEST_F(CudaMemory, AReserveThatIsGivenUpGoesBack) {
  const Tensor x = ones({1000}, {.device = gpu});
  const int64_t before = reserved();
  backend().set_memory_options({.preallocate_bytes = 128 * mebibyte});
  {
    const auto graph = backend().capture([&] { add(x, x); });
    backend().set_memory_options({});
  }
  free(allocate(127 * mebibyte), 127 * mebibyte);
  EXPECT_LE(reserved(), before + 128 * mebibyte)
      << "what the graph had of it is a part of it again";
  backend().empty_cache();
  EXPECT_LE(reserved(), before);
}

TEST_F(CudaMemory, AClockMarksTheOrderOfWork) {
  const Tensor x = ones({64 << 20}, {.device = gpu});
  const auto clock = backend().make_clock();
  ASSERT_NE(clock, nullptr);
  EXPECT_EQ(clock->mark(), 0);
  for (int i = 0; i < 10; ++i) add(x, x);
  EXPECT_EQ(clock->mark(), 1);
  EXPECT_EQ(clock->mark(), 2);
  const std::vector<double> times = clock->read();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times[0], 0);
  EXPECT_GT(times[1], 0.05) << "7.5 GiB were read and written";
  EXPECT_GE(times[2], times[1]);
}

// The context is what is left of the driver's figure, so it must not change with the allocator's
// figures. Other processes may take memory meanwhile: one look of many has to be undisturbed.
TEST_F(CudaMemory, TheSummaryAddsUp) {
  constexpr int64_t bytes = int64_t{1} << 30;
  int64_t least = INT64_MAX;
  for (int look = 0; look < 50 && least > 2 * mebibyte; ++look) {
    backend().empty_cache();
    const MemorySummary before = memory_summary(gpu);
    void* const memory = allocate(bytes);
    const MemorySummary after = memory_summary(gpu);
    free(memory, bytes);
    EXPECT_EQ(after.stats.allocated - before.stats.allocated, bytes);
    EXPECT_GT(after.context, 0);
    least = std::min(least, std::abs(after.context - before.context));
    if (look == 0) std::cout << to_text(after, gpu);
  }
  EXPECT_LE(least, 2 * mebibyte) << "what was allocated is not what the driver gave";
}

TEST_F(CudaMemory, AnExhaustedGpuSaysWhatHoldsItsMemory) {
  const Tensor held = zeros({3 << 20}, {.device = gpu});
  for (const int64_t bytes : {int64_t{1} << 50, INT64_MAX}) {
    const std::string said = message_of(ErrorKind::device, [&] { allocate(bytes); });
    for (const char* part :
         {"cuda:0: out of memory: ", "activations ", "free on the GPU", "train.batch_size"}) {
      EXPECT_THAT(said, HasSubstr(part)) << bytes;
    }
  }
  EXPECT_EQ(max(held).item(), 0) << "the GPU computes on";
}

TEST_F(CudaMemory, UploadsDoNotWaitAndKeepTheirOrder) {
  constexpr int64_t count = 3'000'000;  // more than the first ring holds
  const Tensor x = empty({count}, {.device = gpu});
  std::vector<float> host(count);
  Tensor sum = zeros({count}, {.device = gpu});
  for (int round = 1; round <= 20; ++round) {
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(round + i % 3);
    backend().enqueue_upload(host.data(), x.raw(), x.bytes());
    std::memset(host.data(), 0xff, host.size() * sizeof(float));  // may be reused at once
    backend().elementwise().accumulate(x, sum);
    const int64_t small = round;
    backend().enqueue_upload(&small, x.raw(), sizeof small);
  }
  const std::vector<double> got = sum.to_vector();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 210 + 20 * (i % 3)) << i;
}

}  // namespace
}  // namespace whisker::test
