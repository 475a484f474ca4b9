// The parts of a GPU's start add up to what it took.
#include "core/cuda/runtime/add_time.h"

#include <thread>

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

using Clock = std::chrono::steady_clock;

TEST(AddTime, ATimerWithinAnotherIsNotCountedTwice) {
  double library = 0, plan = 0, thread_plan = 0;
  const Clock::time_point begin = Clock::now();
  {
    const AddTime outer(plan);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int i = 0; i < 2; ++i) {
      const AddTime inner(library);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::thread([&] {  // whose timers are not within this one's
      const AddTime other(thread_plan);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    })
        .join();
  }
  const double all = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_GE(library, 0.010);
  EXPECT_GE(plan, 0.007);
  EXPECT_GE(thread_plan, 0.005);
  EXPECT_LE(library + plan, all);
}

}  // namespace
}  // namespace whisker::cuda
