#include "bench/sequential_floor.h"

#include "core/backend/backend.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

namespace whisker::bench {
namespace {

// Seconds that the captured `work` takes, least of some replays.
double seconds_of(Device device, const std::function<void()>& work) {
  Backend& backend = backend_of(device);
  work();  // chooses algorithms
  const auto graph = backend.capture(work);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    backend.synchronize();
    const auto start = std::chrono::steady_clock::now();
    graph->replay();
    backend.synchronize();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

double operations_of_step(const RecurrentGeometry& g) {
  double products = 0;  // multiply-adds per sequence
  for (int64_t layer = 0; layer < g.layers; ++layer) {
    const int64_t inputs = g.output() + (layer > 0 ? g.inputs(layer) : 0);
    products += static_cast<double>(g.directions * g.gates() * g.hidden * inputs);
  }
  return 2 * static_cast<double>(g.batch) * products;
}

double measured_handover_us(Device device) {
  constexpr int kernels = 2000;
  const Tensor start = zeros({32}, {.device = device});
  const double seconds = seconds_of(device, [&] {
    Tensor x = start;
    for (int i = 0; i < kernels; ++i) x = affine(x, 1, 1);
  });
  return 1e6 * seconds / kernels;
}

}  // namespace

SequentialFloor sequential_floor(Device device, const RecurrentGeometry& g, double tflops) {
  SequentialFloor floor{.operations = operations_of_step(g),
                        .handover_us = measured_handover_us(device)};
  const double step_us = std::max(1e-6 * floor.operations / tflops, floor.handover_us);
  floor.milliseconds = 2e-3 * static_cast<double>(g.steps + g.layers - 1) * step_us;
  return floor;
}

}  // namespace whisker::bench
