// A round has enough runs for some milliseconds, so that a GPU's launch time does not matter.
#include "apps/devices/device_timing.h"

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_of(Backend& backend, const std::function<void()>& work, int runs) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < runs; ++i) work();
  backend.synchronize();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / runs;
}

Tensor drawn(const Shape& shape, Device device, uint64_t stream) {
  return rand_normal(shape, 0, 1, 1, stream, {.device = cpu_device}).to(device);
}

}  // namespace

std::span<const TimedOperator> timed_operators() {
  static const std::vector<TimedOperator> all = {
      {"conv2d 8x56x56x64, 64 3x3",
       [](Device device) -> std::function<void()> {
         return [x = drawn({8, 56, 56, 64}, device, 1), w = drawn({64, 3, 3, 64}, device, 2)] {
           conv2d(x, w, Tensor(), {.padding = 1});
         };
       }},
      {"matmul 1024x1024x1024",
       [](Device device) -> std::function<void()> {
         return [a = drawn({1024, 1024}, device, 3), b = drawn({1024, 1024}, device, 4)] {
           matmul(a, b);
         };
       }},
      {"add 4,000,000",
       [](Device device) -> std::function<void()> {
         return
             [a = drawn({4'000'000}, device, 5), b = drawn({4'000'000}, device, 6)] { add(a, b); };
       }},
  };
  return all;
}

double time_on(Device device, const TimedOperator& op) {
  const NoGrad off;
  Backend& backend = backend_of(device);
  const std::function<void()> work = op.prepare(device);
  milliseconds_of(backend, work, 1);  // chooses algorithms, fills the allocator
  const double once = milliseconds_of(backend, work, 1);
  const int runs = static_cast<int>(std::clamp(20 / std::max(once, 1e-3), 1.0, 500.0));
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    fastest = std::min(fastest, milliseconds_of(backend, work, runs));
  }
  return fastest;
}

std::string gpu_verdict(std::string_view why_not, int count) {
  if (!why_not.empty()) return fmt::format("the GPU is not used: {}", why_not);
  return fmt::format("the GPU is used: device: auto is cuda:0, the first of {} GPU{}", count,
                     count == 1 ? "" : "s");
}

}  // namespace whisker
