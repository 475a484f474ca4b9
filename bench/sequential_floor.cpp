#include "bench/sequential_floor.h"

#include "core/backend.h"
#include "core/ops.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <vector>

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

double measured_tflops(Device device, DType dtype) {
  constexpr int64_t n = 8192;
  constexpr int products = 8;
  const TensorOptions options{.dtype = dtype, .device = device};
  const auto random = [&](uint64_t stream) {  // drawn on the host, so some rows again and again
    constexpr int64_t rows = 512;
    const Tensor some = rand_normal({rows, n}, 0, 1, 1, stream, options);
    return concat(std::vector<Tensor>(n / rows, some), 0);
  };
  const Tensor a = random(1), b = random(2);
  const double seconds = seconds_of(device, [&] {
    for (int i = 0; i < products; ++i) matmul(a, b);
  });
  return 1e-12 * products * 2 * static_cast<double>(n) * n * n / seconds;
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

SequentialFloor sequential_floor(Device device, const RecurrentGeometry& g) {
  SequentialFloor floor{.operations = operations_of_step(g),
                        .tflops = measured_tflops(device, g.dtype),
                        .handover_us = measured_handover_us(device)};
  const double step_us = std::max(1e-6 * floor.operations / floor.tflops, floor.handover_us);
  floor.milliseconds = 2e-3 * static_cast<double>(g.steps + g.layers - 1) * step_us;
  return floor;
}

}  // namespace whisker::bench
