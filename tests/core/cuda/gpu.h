// Common parts of GPU tests: they run on cuda:0, or skip without one.
#pragma once

#include "core/backend/backend.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "core/tensor/device.h"
#include "tests/support/poisoned_memory.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

inline constexpr Device gpu{DeviceKind::cuda, 0};

/// Seconds that no test spends, however often it is repeated in one process, which has one account.
inline constexpr double time_for_any_search = 1e6;

/// A captured step and where each replay leaves its results.
struct CapturedResults {
  template <typename Step>
  CapturedResults(const std::vector<Tensor>& like, const Step& step) {
    for (const Tensor& one : like) results.push_back(zeros(one.shape(), one.options()));
    graph = backend_of(gpu).capture([&] {
      const std::vector<Tensor> got = step();
      for (size_t i = 0; i < got.size(); ++i) results[i].copy_(got[i]);
    });
  }
  std::vector<Tensor> results;
  std::unique_ptr<CapturedGraph> graph;
};

/// Skips where there is no GPU; starts from exact f32 and poisoned memory and puts the options back
/// afterwards.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    before_ = cuda_options(gpu);
    set_cuda_options(gpu, exact_options());
    poisoned_.emplace(gpu);
  }
  void TearDown() override {
    if (cuda_device_count() > 0) set_cuda_options(gpu, before_);
  }
  static CudaOptions exact_options() {
    CudaOptions options;
    options.tf32 = false;
    return options;
  }
  /// Drops every choice of an algorithm, imported and timed ones too.
  static void forget_choices(const CudaOptions& options) {
    CudaOptions other = options;
    other.workspace_limit += 1;
    set_cuda_options(gpu, other);
    set_cuda_options(gpu, options);
  }

 private:
  CudaOptions before_;
  std::optional<PoisonedMemory> poisoned_;
};

}  // namespace whisker::test
