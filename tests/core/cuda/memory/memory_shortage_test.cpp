// P18 beyond plain steps: whichever allocation fails while algorithms are timed or in a capture,
// the work ends with that error or goes on with an untimed choice, and nothing leaks.
#include "core/backend/memory_summary.h"
#include "core/error.h"
#include "tests/core/cuda/gpu.h"
#include "tests/core/cuda/small_training.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/tolerance.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t mebi = int64_t{1} << 20;
constexpr auto category = MemoryCategory::workspace;
using Work = std::function<void()>;

Backend& backend() {
  return backend_of(gpu);
}

int64_t allocations_of(const Work& work) {
  constexpr int64_t many = 10'000;
  backend().set_memory_options({.failing_allocation = many});
  work();
  const std::optional<int64_t> left = until_failure(backend(), many);
  EXPECT_TRUE(left) << "more than " << many << " allocations";
  return many - left.value_or(many);
}

int rows_of_table() {
  const std::string table = backend().export_algorithms();
  int rows = 0;
  for (size_t at = 0; (at = table.find("\":\"", at)) != std::string::npos; ++at) ++rows;
  return rows;
}

/// What became of runs in each of which another allocation failed.
struct Failures {
  int64_t allocations = 0;  // of one run
  int ended = 0;            // runs, with the error
  int went_on = 0;          // runs, with something untimed
  int64_t leaked = 0;       // bytes
};

/// Lets the allocations of work() fail one by one, each after prepare(), in a drawn order for as
/// long as `seconds` last; with WHISKER_LONG all of them.
Failures fail_each(const char* what, const Work& prepare, const Work& work, double seconds) {
  prepare();
  Failures found{.allocations = allocations_of(work)};
  const int all_rows = rows_of_table();
  std::vector<int64_t> order(static_cast<size_t>(found.allocations));
  std::iota(order.begin(), order.end(), 1);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const bool all = std::getenv("WHISKER_LONG") != nullptr;
  const auto start = std::chrono::steady_clock::now();
  for (const int64_t failing : order) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!all && elapsed.count() > seconds) break;
    prepare();
    backend().synchronize();
    const int64_t before = backend().memory_stats().allocated;
    backend().set_memory_options({.failing_allocation = failing});
    try {
      work();
      backend().synchronize();
      if (!until_failure(backend(), failing)) {
        ++found.went_on;
        EXPECT_LT(rows_of_table(), all_rows)
            << what << ": a choice made without memory was kept; allocation " << failing;
      }
    } catch (const OutOfMemory& error) {
      ++found.ended;
      EXPECT_THAT(error.what(), HasSubstr("out of memory"));
    }
    backend().set_memory_options({});
    found.leaked += backend().memory_stats().allocated - before;
  }
  std::cout << what << ": of " << found.allocations << " allocations " << found.ended
            << " failures ended the work, " << found.went_on << " left a choice untimed, "
            << found.leaked << " bytes leaked\n";
  return found;
}

/// Two convolutions, one with more padding after than before, and a dense layer: what comes out,
/// and the gradient of each leaf.
std::vector<std::vector<double>> run_layers(Device device) {
  const auto normal = [&](const Shape& shape, uint64_t stream) {
    return rand_normal(shape, 0, 0.25, 7, stream, {.device = reference_device})
        .to(device)
        .set_requires_grad();
  };
  const std::vector<Tensor> leaves = {normal({4, 8, 8, 16}, 0), normal({16, 3, 3, 16}, 1),
                                      normal({16}, 2), normal({32, 2, 2, 16}, 3),
                                      normal({80, 8 * 8 * 32}, 4)};
  Tensor y = conv2d(leaves[0], leaves[1], leaves[2], {.padding = 1});
  y = conv2d(y, leaves[3], {}, {.padding_mode = PaddingMode::same});
  y = linear(y.reshape({4, -1}), leaves[4], {});
  std::vector<std::vector<double>> results = {y.to_vector()};
  for (const Tensor& gradient : grad(mean(mul(y, y)), leaves)) {
    results.push_back(gradient.to_vector());
  }
  return results;
}

void expect_layers() {
  static const std::vector<std::vector<double>> want = run_layers(reference_device);
  const std::vector<std::vector<double>> got = run_layers(gpu);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(close(got[i], want[i], 1e-3, 1e-3)) << "result " << i;
  }
}

class CudaMemoryShortage : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    searching_.search_seconds = time_for_any_search;
    searching_.search_uses = 10'000;  // enough for a few candidates
  }
  void TearDown() override {
    if (cuda_device_count() > 0) {
      backend().set_memory_options({});
      backend().empty_cache();
    }
    GpuTest::TearDown();
  }
  /// Untimed choices, to be timed by the next run.
  void begin_search() {
    forget_choices(searching_);
    run_layers(gpu);
  }

  CudaOptions searching_ = exact_options();
};

TEST_F(CudaMemoryShortage, EndsWorkOrSearchWithoutALeak) {
  const Failures found = fail_each(
      "search", [&] { begin_search(); }, [&] { expect_layers(); }, 6);
  EXPECT_GT(found.ended, 0);
  EXPECT_GT(found.went_on, 0) << "the search's own allocations may fail";
  EXPECT_EQ(found.leaked, 0);
}

TEST_F(CudaMemoryShortage, ControlALeakShows) {
  std::vector<Tensor> kept;
  const Failures found = fail_each(
      "control", [] {},
      [&] {
        kept.push_back(ones({1}, {.device = gpu}));
        run_layers(gpu);
      },
      1);
  EXPECT_GT(found.leaked, 0);
}

// Not injected: the allocator has a reserve for the work, and the driver has nothing left.
TEST_F(CudaMemoryShortage, OfTheDriverLeavesChoicesUntimed) {
  begin_search();
  expect_layers();  // what the search needs of the libraries is loaded
  EXPECT_NE(backend().export_algorithms(), "");
  begin_search();
  backend().empty_cache();
  constexpr int64_t reserve = 256 * mebi;
  backend().set_memory_options({.preallocate_bytes = reserve});
  std::vector<std::pair<void*, int64_t>> taken = {{backend().allocate(reserve, category), reserve}};
  for (int64_t bytes = int64_t{1} << 36; bytes > mebi; bytes /= 2) {
    try {
      for (;;) taken.emplace_back(backend().allocate(bytes, category), bytes);
    } catch (const OutOfMemory&) {
      // Then less at a time.
    }
  }
  const auto give_back = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      backend().deallocate(taken[i].first, taken[i].second, category);
    }
  };
  give_back(0, 1);
  EXPECT_NO_THROW(expect_layers()) << memory_summary(gpu).free << " bytes free";
  EXPECT_EQ(backend().export_algorithms(), "") << "something was timed";
  // Memory that the allocator merely keeps goes back to the driver, and all is timed.
  give_back(1, taken.size());
  EXPECT_LT(memory_summary(gpu).free, 64 * mebi);
  begin_search();
  expect_layers();
  EXPECT_NE(backend().export_algorithms(), "") << "the cache was not given back";
}

// Engines with larger workspaces are timed outside the allocator, and not chosen.
TEST_F(CudaMemoryShortage, OfALimitKeepsToWhatFits) {
  const auto noise = [](const Shape& shape) {
    return rand_normal(shape, 0, 1, 1, 1, {.device = gpu}).set_requires_grad();
  };
  const std::vector<Tensor> leaves = {noise({16, 56, 56, 64}), noise({64, 3, 3, 64})};
  const Work step = [&] {
    grad(mean(conv2d(leaves[0], leaves[1], {}, {.padding = 1})), leaves);
    backend().synchronize();
  };
  forget_choices(exact_options());
  backend().reset_peak();
  step();
  backend().empty_cache();
  backend().set_memory_options({.limit_bytes = backend().memory_stats().peak + 32 * mebi});
  ASSERT_NO_THROW(step()) << "untimed";
  searching_.search_uses = 20'000;
  set_cuda_options(gpu, searching_);
  for (int i = 0; i < 3; ++i) ASSERT_NO_THROW(step()) << "searching, step " << i;
  std::cout << rows_of_table() << " plans within the limit\n";
}

TEST_F(CudaMemoryShortage, EndsCapturesWithoutALeak) {
  CudaOptions options = exact_options();
  options.deterministic = true;
  set_cuda_options(gpu, options);
  SmallTraining eager(gpu), training(gpu);
  for (SmallTraining* each : {&eager, &training}) {
    each->load(0);
    each->step();
  }
  std::unique_ptr<CapturedGraph> graph;
  const Work capture = [&] { graph = backend().capture([&] { training.step(); }); };
  const Failures found = fail_each(
      "capture", [&] { graph.reset(); }, capture, 3);
  EXPECT_GT(found.ended, 10);
  EXPECT_EQ(found.went_on, 0);
  EXPECT_EQ(found.leaked, 0);
  graph.reset();
  EXPECT_EQ(memory_summary(gpu).graph_pool, 0);
  capture();
  for (int64_t batch = 1; batch < 4; ++batch) {
    eager.load(batch);
    eager.step();
    training.load(batch);
    graph->replay();
    ASSERT_EQ(training.weights(), eager.weights()) << "after batch " << batch;
  }
}

}  // namespace
}  // namespace whisker::test
