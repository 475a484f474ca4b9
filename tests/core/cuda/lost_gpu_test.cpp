// A kernel that breaks off takes the GPU away from the process. What it leaves behind is one
// error, thrown by the next wait and by every call after it, and a process that still ends by
// itself.
#include "core/error.h"
#include "core/ops.h"
#include "core/storage.h"
#include "gpu.h"

#include <cstdio>
#include <cstdlib>

namespace whisker::test {
namespace {

// A tensor where the GPU has no memory.
Tensor nowhere(int64_t count) {
  void* const address = reinterpret_cast<void*>(uintptr_t{4096});
  return Tensor(make_ref<Storage>(gpu, count * 4, address, nullptr), 0, {count}, DType::f32);
}

// The exit code of an Error whose message is printed, as in apps/main.cpp; 0 when nothing is wrong.
template <class Fn>
int run(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}

// Ends the process with the code of a device error if all is as it should be.
void lose_the_gpu(bool faulty) {
  const Tensor held = zeros({1000}, {.device = gpu});
  const Tensor target = faulty ? nowhere(1000) : empty_like(held);
  const int first = run([&] {
    target.fill_(1);
    backend_of(gpu).synchronize();
  });
  const int second = run([&] { held.to_vector(); });
  run([&] { backend_of(gpu).empty_cache(); });  // may fail, must not crash
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
