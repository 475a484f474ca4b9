// The devices every operator test runs on, and what each of them computes in.
#pragma once

#include "core/cuda_library.h"
#include "core/device.h"
#include "core/dtype.h"

#include <algorithm>
#include <string>
#include <vector>

namespace whisker::test {

/// GPUs compute exactly in f32 here: tf32 rounds operands beyond the tolerances.
inline std::vector<Device> test_devices() {
  const std::vector<Device> devices = available_devices();
  for (const Device device : devices) {
    if (device.kind != DeviceKind::cuda) continue;
    CudaOptions options = cuda_options(device);
    options.tf32 = false;
    set_cuda_options(device, options);
  }
  return devices;
}

/// "cpu", "cuda_0": as GoogleTest wants names.
inline std::string test_name(Device device) {
  std::string name = device.str();
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

/// The floating types `device` computes in, most exact first.
inline std::vector<DType> test_dtypes(Device device) {
  if (device.kind == DeviceKind::reference) return {DType::f64, DType::f32};
  if (device.kind == DeviceKind::cpu) return {DType::f32, DType::bf16};
  return {DType::f32, DType::bf16, DType::f16};
}

}  // namespace whisker::test
