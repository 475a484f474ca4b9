// The device check finds a wrong device; GPU facts come from files.
#include "apps/devices/device_check.h"
#include "apps/devices/gpu_facts.h"
#include "core/backend/backend.h"
#include "core/ops/ops.h"
#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(DeviceCheck, EveryDeviceComputesAsTheReferenceDoes) {
  for (const Device device : available_devices()) {
    for (const CheckedOperator& op : checked_operators()) {
      const DeviceCheck check = check_on(device, op);
      EXPECT_TRUE(check.passed()) << device.str() << " " << check.name << " " << check.error;
      EXPECT_GT(check.error, 0) << "f32 against f64 always differs a little";
      EXPECT_GT(check.milliseconds, 0);
    }
  }
}

// What a broken CPU would do to every fast path.
Tensor off_on_cpu(const Tensor& x, double by) {
  return x.device() == cpu_device ? affine(x, 1 + by, 0) : affine(x, 1, 0);
}

TEST(DeviceCheck, AWrongDeviceIsFound) {
  const CheckedOperator op{
      "scaled", {{8, 8}}, [](std::span<const Tensor> x) { return off_on_cpu(x[0], 1e-3); }};
  EXPECT_FALSE(check_on(cpu_device, op).passed());
  EXPECT_TRUE(check_on(reference_device, op).passed());
  const CheckedOperator nan{"nan", {{8, 8}}, [](std::span<const Tensor> x) {
                              return off_on_cpu(x[0], std::numeric_limits<double>::quiet_NaN());
                            }};
  EXPECT_FALSE(check_on(cpu_device, nan).passed());
}

TEST(DeviceProperties, AreNamedAndFilled) {
  for (const Device device : available_devices()) {
    const auto facts = backend_of(device).properties();
    EXPECT_GE(facts.size(), 2u);
    for (const BackendProperty& fact : facts) {
      EXPECT_FALSE(fact.name.empty());
      EXPECT_FALSE(fact.value.empty()) << fact.name;
    }
  }
}

TEST(GpuFacts, AreReadFromTheDriversFiles) {
  const TemporaryFolder folder;
  const std::filesystem::path& proc = folder.path();
  EXPECT_EQ(describe_gpus(find_gpus(proc), "no driver."), "no driver.");
  folder.write("driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  "
               "Thu Jan 23 03:29:30 UTC 2025\nGCC version:  gcc 12.2.0\n");
  folder.write("driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 5\n");
  EXPECT_EQ(describe_gpus(find_gpus(proc), "too old."),
            "NVIDIA H200, NVIDIA driver 570.86.15; too old.");
  EXPECT_EQ(describe_gpus(find_gpus(proc), ""), "NVIDIA H200, NVIDIA driver 570.86.15");
}

}  // namespace
}  // namespace whisker
