// Memory stays flat over thousands of steps with everything that has state switched on, and
// the check would see a leak of a few kilobytes per step.
#include "core/backend/backend.h"
#include "core/backend/memory_summary.h"
#include "tests/support/devices.h"
#include "tests/support/peak_memory.h"
#include "tests/support/tiny_training.h"

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

struct Memory {
  int64_t resident = 0;   // bytes of the process
  int64_t allocated = 0;  // bytes on the backend's books
  int64_t reserved = 0;   // bytes that a GPU's allocator took
  int64_t context = 0;    // bytes of the GPU that this process has besides, where that is known
};

Memory memory_of(Device device) {
  Memory now{.resident = resident_bytes()};
  if (device.kind == DeviceKind::cuda) {
    const MemorySummary summary = memory_summary(device);
    now.reserved = summary.stats.reserved;
    if (summary.others) {
      now.context = summary.context;
    } else {
      fmt::print("context is not looked at: it cannot be told from other processes' memory\n");
    }
  }
  now.allocated = backend_of(device).memory_stats().allocated;
  return now;
}

struct Soak {
  Device device;
  int64_t steps = 0;
  bool graph = true;                // captured where the device can
  int64_t leak_bytes_per_step = 0;  // of the host's and of the device's memory
};

// What is more after the last step than a fifth of the way, when pools and caches have filled.
Memory growth_over(const Soak& soak) {
  const StripeFolder data;
  std::vector<std::string> overrides = lively_overrides();
  overrides.insert(overrides.end(),
                   {"device=" + soak.device.str(), fmt::format("runtime.graph={}", soak.graph),
                    fmt::format("train.epochs={}", soak.steps), "train.early_stopping.patience=0",
                    "train.validate_every=20", "checkpoint.every=100", "train.log_every=10"});
  TestRun run(data.config(overrides));
  std::vector<std::vector<char>> leaked;
  std::vector<Tensor> leaked_there;
  Memory start, end;
  int64_t batches = 0;
  run.recorder.each_step = [&](const StepEvent&) {
    run.recorder.steps.clear();  // the recorder keeps all of them
    run.recorder.epochs.clear();
    leaked.emplace_back(static_cast<size_t>(soak.leak_bytes_per_step), 'x');
    if (soak.leak_bytes_per_step > 0 && soak.device.kind == DeviceKind::cuda) {
      leaked_there.push_back(
          zeros({soak.leak_bytes_per_step}, {.dtype = DType::u8, .device = soak.device}));
    }
    if (++batches == soak.steps / 5) {
      ::malloc_trim(0);  // what earlier tests freed could hold a leak without growing
      start = memory_of(soak.device);
    }
    if (batches < soak.steps) return;
    end = memory_of(soak.device);
    run.stop = 15;
  };
  run.train();
  EXPECT_GE(batches, soak.steps);
  return {.resident = end.resident - start.resident,
          .allocated = end.allocated - start.allocated,
          .reserved = end.reserved - start.reserved,
          .context = end.context - start.context};
}

void print(const char* what, const Memory& growth) {
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  fmt::print(
      "{}: process {:.2f} MiB, allocated {:.2f} MiB, of a GPU reserved {:.2f} MiB, context "
      "{:.2f} MiB\n",
      what, mebibytes(growth.resident), mebibytes(growth.allocated), mebibytes(growth.reserved),
      mebibytes(growth.context));
}

using SoakOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, SoakOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(SoakOn, MemoryStaysFlat) {
  const Device device = GetParam();
  const int64_t steps = std::getenv("WHISKER_LONG") ? 10'000 : 1'000;
  const int64_t allowed = (on_gpu() ? 8 : 3) << 20;  // drivers have threads and pools of their own
  // Where freed memory is kept from use, the process grows by all of it.
  const Memory leaking =
      growth_over({.device = device, .steps = steps, .leak_bytes_per_step = 16 << 10});
  print("growth of memory with a leak", leaking);
  for (const bool graph : {true, false}) {
    if (!graph && !on_gpu()) continue;
    const Memory flat = growth_over({.device = device, .steps = steps, .graph = graph});
    print(!on_gpu() ? "growth of memory" : graph ? "captured steps" : "eager steps", flat);
    // Of a GPU's, buffers follow the sizes of the images in flight.
    EXPECT_LE(flat.allocated, on_gpu() ? 256 << 10 : 0);
    EXPECT_LT(flat.reserved, allowed);
    EXPECT_LT(flat.context, allowed);
    EXPECT_LT(flat.resident, is_instrumented ? INT64_MAX : allowed);
  }
  if (on_gpu()) {
    EXPECT_GT(leaking.allocated, allowed) << "control";
    EXPECT_GT(leaking.reserved, allowed) << "control";
  }
  EXPECT_GT(leaking.resident, is_instrumented ? INT64_MIN : allowed) << "control";
}

}  // namespace
}  // namespace whisker::test
