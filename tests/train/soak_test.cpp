// Memory stays flat over thousands of steps with everything that has state switched on, and
// the check would see a leak of a few kilobytes per step.
#include "core/backend.h"
#include "core/io/peak_memory.h"
#include "support/tiny_training.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

namespace whisker::test {
namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct Growth {
  int64_t resident = 0;   // bytes of the process
  int64_t allocated = 0;  // bytes on the backend's books
};

// From a fifth of the way, when pools and caches have filled, to the last step.
Growth growth_over(int64_t steps, int64_t leak_bytes_per_step) {
  const StripeFolder data;
  std::vector<std::string> overrides = lively_overrides();
  overrides.insert(overrides.end(),
                   {fmt::format("train.epochs={}", steps), "train.early_stopping.patience=0",
                    "train.validate_every=50", "checkpoint.every=100", "train.log_every=10"});
  TestRun run(data.config(overrides));
  std::vector<std::vector<char>> leaked;
  Growth start, end;
  int64_t batches = 0;
  const auto now = [] {
    return Growth{resident_bytes(), backend_of(cpu_device).memory_stats().allocated};
  };
  run.recorder.each_step = [&](const StepEvent&) {
    run.recorder.steps.clear();  // the recorder keeps all of them
    run.recorder.epochs.clear();
    leaked.emplace_back(static_cast<size_t>(leak_bytes_per_step), 'x');
    if (++batches == steps / 5) {
      ::malloc_trim(0);  // what earlier tests freed could hold a leak without growing
      start = now();
    }
    if (batches < steps) return;
    end = now();
    run.stop = 15;
  };
  run.train();
  EXPECT_GE(batches, steps);
  return {end.resident - start.resident, end.allocated - start.allocated};
}

TEST(Soak, MemoryStaysFlat) {
  const int64_t steps = std::getenv("WHISKER_LONG") ? 10'000 : 1'000;
  constexpr int64_t allowed = 3 << 20;
  const Growth flat = growth_over(steps, 0);
  const Growth leaking = growth_over(steps, 16 << 10);
  fmt::print("growth of memory over {} steps: {:.2f} MiB; control with a leak: {:.2f} MiB\n", steps,
             static_cast<double>(flat.resident) / 0x1p20,
             static_cast<double>(leaking.resident) / 0x1p20);
  EXPECT_EQ(flat.allocated, 0);
  if (is_instrumented) return;  // freed memory is kept from use there
  EXPECT_LT(flat.resident, allowed);
  EXPECT_GT(leaking.resident, allowed) << "control: a leak must be seen";
}

}  // namespace
}  // namespace whisker::test
