// A kernel that breaks off takes the GPU away from the process. What it leaves behind is one
// error, thrown by the next wait and by every call after it, and a process that still ends by
// itself.
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/broken_kernel.h"

#include <cstdlib>

namespace whisker::test {
namespace {

// Ends the process with the code of a device error if all is as it should be.
void lose_the_gpu(bool faulty) {
  const Tensor held = zeros({1000}, {.device = gpu});
  const Tensor target = faulty ? nowhere(gpu, 1000) : empty_like(held);
  const int first = exit_code_of([&] {
    target.fill_(1);
    backend_of(gpu).synchronize();
  });
  const int second = exit_code_of([&] { held.to_vector(); });
  exit_code_of([&] { backend_of(gpu).empty_cache(); });  // may fail, must not crash
  std::exit(first != 0 && second != 0 ? first : 0);
}

using CudaLost = GpuTest;

TEST_F(CudaLost, ABrokenKernelEndsTheProcessWithAnError) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(lose_the_gpu(true), testing::ExitedWithCode(static_cast<int>(ErrorKind::device)),
              "The device is lost to this process: start it again");
}

TEST_F(CudaLost, TheSameWithoutTheBrokenKernelEndsWell) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(lose_the_gpu(false), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace whisker::test
