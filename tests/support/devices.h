// The devices every operator test runs on, and what each of them computes in.
#pragma once

#include "core/device.h"
#include "core/dtype.h"

#include <vector>

namespace whisker::test {

inline std::vector<Device> test_devices() {
  return available_devices();
}

/// The floating types `device` computes in (DECISIONS 16), most exact first.
inline std::vector<DType> test_dtypes(Device device) {
  if (device.kind == DeviceKind::reference) return {DType::f64, DType::f32};
  if (device.kind == DeviceKind::cpu) return {DType::f32, DType::bf16};
  return {DType::f32, DType::bf16, DType::f16};
}

}  // namespace whisker::test
