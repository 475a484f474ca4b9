// The devices every operator test runs on, and what each of them computes in.
#pragma once

#include "core/backend/fused_ops.h"
#include "core/nvidia/cuda_library.h"
#include "core/tensor/device.h"
#include "core/tensor/dtype.h"
#include "tests/support/poisoned_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

/// In f32 without tf32, which rounds operands beyond the tolerances. Starts the GPU.
inline void compute_exactly(Device gpu) {
  CudaOptions options = cuda_options(gpu);
  options.tf32 = false;
  set_cuda_options(gpu, options);
}

/// GPUs compute exactly here.
inline std::vector<Device> test_devices() {
  const std::vector<Device> devices = available_devices();
  for (const Device device : devices) {
    if (device.kind == DeviceKind::cuda) compute_exactly(device);
  }
  return devices;
}

/// Those of them with kernels for fused operators: elsewhere a fused operator is its fallback.
inline std::vector<Device> fused_devices() {
  std::vector<Device> devices = test_devices();
  std::erase_if(devices, [](Device device) { return !has_fused_kernels(device.kind); });
  return devices;
}

/// Comparisons of fused operators with their fallbacks, which elsewhere would compare the fallback
/// with itself.
class OnFusedKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fused_devices().empty()) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  }
};

/// "cpu", "cuda_0": as GoogleTest wants names.
inline std::string test_name(Device device) {
  std::string name = device.str();
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

/// Tests on one device; a GPU computes exactly. Programs that list their tests do not start it.
class OnDevice : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!on_gpu()) return;
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    compute_exactly(GetParam());
  }
  bool on_gpu() const { return GetParam().kind == DeviceKind::cuda; }
};
inline constexpr Device every_device[] = {reference_device, cpu_device, {DeviceKind::cuda, 0}};

/// Tests of whole networks and runs, on the CPU and on a GPU, which computes exactly unless a run's
/// configuration says otherwise; in poisoned memory.
class NetworkOn : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped()) poisoned_.emplace(GetParam());
  }

 private:
  std::optional<PoisonedMemory> poisoned_;
};
inline constexpr Device network_devices[] = {cpu_device, {DeviceKind::cuda, 0}};

/// The floating types `device` computes in, most exact first.
inline std::vector<DType> test_dtypes(Device device) {
  if (device.kind == DeviceKind::reference) return {DType::f64, DType::f32};
  if (device.kind == DeviceKind::cpu) return {DType::f32, DType::bf16};
  return {DType::f32, DType::bf16, DType::f16};
}

}  // namespace whisker::test
