// Single operators of ResNet-18 at 256 images on a GPU in bf16, as the backend runs them: max
// pooling and batch normalisation, forward and backward, the latter of MobileNetV3 as well; and two
// batch norms that are added, of ResNet-50 as well, as one operator (added) and as two
// (one_by_one), as are a batch norm and the max-pooling behind it (fused and apart). One JSON line
// per operator: microseconds (median of 9 groups of captured runs) over operands so many that no
// cache holds them, and "cached_us" over the same ones again and again, as a step finds what the
// operator before has just written where it fits. floor_us: every operand read and every result
// written once at the rate of large copies; passes_us: with what batch statistics need read a
// second time.
// usage: bench_operators [ID...]
// Without arguments: all of them.
#include "bench/operator_runs.h"
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/error.h"
#include "train/planning/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace whisker;
using namespace whisker::bench;

struct Row {
  std::string id;
  std::function<Run()> make;
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  const Pool2dOptions stem{.kernel = 3, .stride = Pair(2), .padding = 1};
  for (const bool backward : {false, true}) {
    const char* way = backward ? "backward" : "forward";
    rows.push_back({fmt::format("max_pool_3x3_s2_{}", way), [=] {
                      return max_pool({256, 112, 112, 64}, stem, backward);
                    }});
    rows.push_back({fmt::format("max_pool_2x2_{}", way), [=] {
                      return max_pool({256, 112, 112, 64}, {.kernel = 2}, backward);
                    }});
  }
  for (const bool backward : {false, true}) {
    for (const bool fused : {true, false}) {
      rows.push_back({fmt::format("batch_norm_max_pool_{}_{}", fused ? "fused" : "apart",
                                  backward ? "backward" : "forward"),
                      [=] {
                        return batch_norm_max_pool({256, 112, 112, 64}, stem, backward, fused);
                      }});
    }
  }
  const Shape maps[] = {{256, 112, 112, 64}, {256, 56, 56, 64},  {256, 28, 28, 128},
                        {256, 14, 14, 256},  {256, 7, 7, 512},   {256, 56, 56, 72},
                        {256, 28, 28, 120},  {256, 14, 14, 672}, {256, 7, 7, 960}};
  for (const Shape& map : maps) {
    const auto add = [&](const char* name, Part part, bool residual) {
      rows.push_back({fmt::format("batch_norm_{}_{}x{}x{}", name, map[1], map[2], map[3]),
                      [=] { return batch_norm(map, part, residual); }});
    };
    add("forward", Part::train, false);
    add("inference", Part::inference, false);
    add("backward", Part::backward, false);
    add("residual_forward", Part::train, true);
    add("residual_backward", Part::backward, true);
  }
  const Shape scaled[] = {
      {128, 112, 112, 32}, {128, 28, 28, 240}, {128, 14, 14, 672}, {128, 7, 7, 1152}};
  for (const Shape& map : scaled) {
    for (const bool fused : {true, false}) {
      rows.push_back({fmt::format("squeeze_excite_{}_backward_{}x{}x{}", fused ? "fused" : "apart",
                                  map[1], map[2], map[3]),
                      [=] { return squeeze_excite_backward(map, fused); }});
    }
  }
  const Shape residual_tails[] = {{256, 28, 28, 128}, {256, 14, 14, 256}, {256, 7, 7, 512},
                                  {256, 56, 56, 256}, {256, 28, 28, 512}, {256, 14, 14, 1024},
                                  {256, 7, 7, 2048}};
  for (const Shape& map : residual_tails) {
    for (const bool backward : {false, true}) {
      for (const bool fused : {true, false}) {
        rows.push_back({fmt::format("batch_norm_{}_{}_{}x{}x{}", fused ? "added" : "one_by_one",
                                    backward ? "backward" : "forward", map[1], map[2], map[3]),
                        [=] { return add_batch_norms(map, backward, fused); }});
      }
    }
  }
  return rows;
}

/// Of one run, where all of `runs` are made one after the other, several times.
double microseconds(const std::vector<Run>& runs) {
  constexpr int least = 20;
  const int turns = std::max(1, least / static_cast<int>(runs.size()));
  const auto graph = backend_of(gpu).capture([&] {
    for (int turn = 0; turn < turns; ++turn) {
      for (const Run& run : runs) run.run();
    }
  });
  std::vector<double> times;
  for (int group = 0; group < 10; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int replay = 0; replay < 3; ++replay) graph->replay();
    backend_of(gpu).synchronize();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / 3 / turns / static_cast<double>(runs.size()));
  }
  times.erase(times.begin());
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void report(const Row& row, const Ceilings& ceilings) {
  constexpr int64_t beyond_caches = int64_t{512} << 20;
  std::vector<Run> runs{row.make()};
  runs.front().run();
  const double cached = microseconds(runs);
  const int64_t bytes = runs.front().bytes;
  for (int64_t held = bytes; held < beyond_caches; held += bytes) runs.push_back(row.make());
  const double time = microseconds(runs);
  const auto at_ceiling = [&](int64_t count) {
    return static_cast<double>(count) / ceilings.gb_per_s / 1e3;
  };
  const double floor = at_ceiling(bytes);
  fmt::print(
      "{{\"operator\":\"{}\",\"dtype\":\"bf16\",\"us\":{:.2f},\"cached_us\":{:.2f},\"mb\":{:.1f},"
      "\"floor_us\":{:.2f},\"passes_us\":{:.2f},\"over_floor\":{:.2f},\"gb_per_s\":{:.0f}}}\n",
      row.id, time, cached, static_cast<double>(bytes) / 1e6, floor,
      at_ceiling(bytes + runs.front().bytes_again), time / floor, ceilings.gb_per_s);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const Ceilings ceilings = measure_ceilings(gpu, DType::bf16);
  const NoGrad only_kernels;
  size_t found = 0;
  for (const Row& row : all_rows()) {
    if (!wanted.empty() && std::ranges::find(wanted, row.id) == wanted.end()) continue;
    report(row, ceilings);
    ++found;
  }
  if (found < wanted.size()) {
    fail(ErrorKind::usage,
         "bench_operators: {} of {} IDs are unknown. Without any, all are listed.",
         wanted.size() - found, wanted.size());
  }
} catch (const whisker::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
