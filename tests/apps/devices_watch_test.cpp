// Samples of two GPUs that a stand-in for NVML shows, in every format, and the program that prints
// them until Ctrl-C.
#include "apps/devices/devices_watch.h"

#include "apps/devices/device_timing.h"
#include "core/backend/backend.h"
#include "core/backend/memory_summary.h"
#include "core/error.h"
#include "tests/support/error_of.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<GpuReading> fake_gpus() {
  const Nvml nvml(WHISKER_FAKE_NVML);
  std::vector<GpuReading> gpus;
  for (int i = 0; i < nvml.count(); ++i) gpus.push_back(nvml.read(i));
  return gpus;
}

TEST(Nvml, ReadsWhatAGpuMeasures) {
  const auto gpus = fake_gpus();
  ASSERT_EQ(gpus.size(), 2u);
  const GpuReading& large = gpus[0];
  EXPECT_EQ(large.name, "Fake, \"large\"");
  EXPECT_EQ(large.total_bytes, int64_t{1} << 30);
  EXPECT_EQ(large.used_bytes, int64_t{24} << 20);
  EXPECT_EQ(large.power_watts, 123.456);
  EXPECT_EQ(large.temperature_celsius, 41);
  EXPECT_EQ(large.gpu_percent, 87);
  EXPECT_EQ(large.memory_percent, 12);
  ASSERT_EQ(large.processes.size(), 20u) << "more than the first guess could hold";
  EXPECT_EQ(large.processes[19].pid, 119);
  EXPECT_EQ(large.processes[19].bytes, int64_t{20} << 20);
  const GpuReading& small = gpus[1];
  EXPECT_FALSE(small.power_watts || small.gpu_percent || small.memory_percent);
  ASSERT_EQ(small.processes.size(), 1u);
  EXPECT_FALSE(small.processes[0].bytes);
}

TEST(Nvml, FindsProcessesByTheBus) {
  const Nvml nvml(WHISKER_FAKE_NVML);
  EXPECT_EQ(nvml.processes("0000:01:00.0").size(), 20u);
  EXPECT_THROW(nvml.processes("0000:02:00.0"), Error);
}

TEST(Nvml, FindsTheLinkBetweenTwoGpus) {
  const Nvml nvml(WHISKER_FAKE_NVML);
  const GpuLink link = nvml.link("0000:01:00.0", "0000:03:00.0");
  EXPECT_EQ(link.name, "PCIe switch");
  EXPECT_TRUE(link.peer_to_peer);
}

TEST(Nvml, SaysWhyItIsNotThere) {
  const auto error = [](const std::string& library) {
    return test::message_of(ErrorKind::device, [&] { const Nvml nvml(library); });
  };
  EXPECT_THAT(error("libno-such-nvml.so.1"),
              testing::AllOf(HasSubstr("libno-such-nvml.so.1 cannot be opened"),
                             HasSubstr("NVIDIA driver")));
  setenv("WHISKER_FAKE_NVML", "broken", 1);
  EXPECT_THAT(error(WHISKER_FAKE_NVML), HasSubstr("does not start: Driver Not Loaded"));
  unsetenv("WHISKER_FAKE_NVML");
}

TEST(Watch, WritesCsv) {
  EXPECT_THAT(watch_heading(WatchFormat::csv), StartsWith("time,index,name,used_bytes,"));
  const std::string lines = watch_lines(WatchFormat::csv, fake_gpus(), "T");
  EXPECT_THAT(lines, StartsWith("T,0,\"Fake, \"\"large\"\"\",25165824,1073741824,123.456,41,87,12,"
                                "\"100:1048576 101:2097152 "));
  EXPECT_THAT(lines, HasSubstr("\nT,1,\"Fake small\",25165824,2147483648,,41,,,\"100:\"\n"));
}

TEST(Watch, WritesJson) {
  EXPECT_EQ(watch_heading(WatchFormat::json), "");
  const std::string line = watch_lines(WatchFormat::json, {fake_gpus()[1]}, "T");
  EXPECT_EQ(line, R"({"schema_version":1,"time":"T","gpus":[{"index":1,"name":"Fake small",)"
                  R"("used_bytes":25165824,"total_bytes":2147483648,"power_watts":null,)"
                  R"("temperature_celsius":41,"gpu_percent":null,"memory_percent":null,)"
                  R"("processes":[{"pid":100,"bytes":null}]}]})"
                  "\n");
}

TEST(Watch, WritesATable) {
  const std::string lines = watch_lines(WatchFormat::text, {fake_gpus()[1]}, "T");
  EXPECT_THAT(lines, HasSubstr("24.0 MiB of    2.0 GiB"));
  EXPECT_THAT(lines, HasSubstr("     -   41 C      -      -  100\n"));
}

TEST(Watch, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(time_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(86'400'250))),
            "1970-01-02T00:00:00.250Z");
}

TEST(Watch, SamplesUntilItIsStopped) {
  const Nvml nvml(WHISKER_FAKE_NVML);
  std::atomic<int> stop = 0;
  int printed = 0;
  watch_devices(nvml, {.interval = std::chrono::milliseconds(1), .format = WatchFormat::csv}, stop,
                [&](const std::string&) { stop = ++printed == 4; });
  EXPECT_EQ(printed, 4) << "the heading and three samples";
}

TEST(GpuVerdict, SaysWhetherTheGpuIsUsedAndWhyNot) {
  EXPECT_EQ(gpu_verdict("", 2), "the GPU is used: device: auto is cuda:0, the first of 2 GPUs");
  EXPECT_EQ(gpu_verdict("CUDA_VISIBLE_DEVICES='' hides every GPU. Unset it.", 0),
            "the GPU is not used: CUDA_VISIBLE_DEVICES='' hides every GPU. Unset it.");
}

TEST(MemorySummary, AddsUpToWhatTheSystemShows) {
  for (const Device device : available_devices()) {
    const Tensor held = zeros({1 << 20}, {.device = device});
    const MemorySummary memory = memory_summary(device);
    EXPECT_GE(memory.stats.allocated, held.bytes());
    EXPECT_GT(memory.context, 0);
    EXPECT_GE(memory.cache(), 0);
    EXPECT_GE(memory.graph_pool, 0);
    EXPECT_EQ(memory.stats.allocated + memory.cache() + memory.context + memory.others.value_or(0) +
                  memory.free,
              memory.total);
    const std::string text = to_text(memory, device);
    EXPECT_THAT(text, StartsWith("memory of " + device.str() + ": "));
    for (const char* part : {"\n  tensors ", "\n  unused cache ", "\n  context ", "\n  free "}) {
      EXPECT_THAT(text, HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace whisker
