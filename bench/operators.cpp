// Single operators of ResNet-18 at 256 pictures on a GPU in bf16, as the backend runs them: max
// pooling and batch normalisation, forward and backward; and two batch norms that are added, of
// ResNet-50 as well, as one operator (pair) and as two (apart). One JSON line per operator:
// microseconds (median of 9 groups of captured runs) over operands so many that no cache holds
// them, and "cached_us" over the same ones again and again, as a step finds what the operator
// before has just written where it fits. floor_us: every operand read and every result written once
// at the rate of large copies; passes_us: with what batch statistics need read a second time.
// usage: bench_operators [ID...]
// Without arguments: all of them.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/batch_norm_pairs.h"
#include "core/cuda_library.h"
#include "core/error.h"
#include "core/ops.h"
#include "train/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace whisker;

constexpr Device gpu{DeviceKind::cuda, 0};
constexpr TensorOptions f32{.device = gpu};
constexpr TensorOptions bf16{.dtype = DType::bf16, .device = gpu};

/// An operator over operands of its own.
struct Run {
  std::function<void()> run;
  int64_t bytes = 0;        // of its operands and results
  int64_t bytes_again = 0;  // of those that two passes read
};

struct Row {
  std::string id;
  std::function<Run()> make;
};

// (N, H, W, C): one random picture N times, as the host takes seconds to make them all.
Tensor random(const Shape& shape, uint64_t stream) {
  return broadcast_to(rand_normal(shape.with(0, 1), 0, 1, 1, stream, f32).to(DType::bf16), shape);
}

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.defined() ? tensor.bytes() : 0;
  return bytes;
}

Run max_pool(const Shape& shape, const Pool2dOptions& options, bool backward) {
  Backend& backend = backend_of(gpu);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::max, shape, options, DType::bf16);
  const Tensor x = random(shape, 1), y = empty({g.n, g.h_out, g.w_out, g.c}, bf16);
  const Tensor winners = empty({backend.pool2d_workspace_bytes(g)}, {DType::u8, gpu});
  const auto forward = [=, &backend] { backend.pool2d(g, x, y, winners); };
  const int64_t bytes = bytes_of({x, y, winners});
  if (!backward) return {forward, bytes};
  forward();
  // dy and dx in the place of y and x: winners are all that the gradient knows of these.
  return {[=, &backend] { backend.pool2d_backward(g, winners, y, x); }, bytes};
}

enum class Part { train, inference, backward };

/// With relu behind it; `residual` as at the end of a residual block.
Run batch_norm(const Shape& shape, Part part, bool residual) {
  Backend& backend = backend_of(gpu);
  const int64_t channels = shape[3];
  const BatchNormGeometry g{.rows = shape[0] * shape[1] * shape[2],
                            .channels = channels,
                            .n = shape[0],
                            .h = shape[1],
                            .w = shape[2],
                            .activation = {Activation::relu},
                            .residual = residual,
                            .dtype = DType::bf16};
  const Tensor x = random(shape, 1), y = empty(shape, bf16);
  const Tensor added = residual ? random(shape, 2) : Tensor();
  const Tensor gamma = ones({channels}, f32), beta = zeros({channels}, f32);
  const Tensor mean = zeros({channels}, f32), inverse_deviation = ones({channels}, f32);
  const RunningStatistics running{zeros({channels}, f32), ones({channels}, f32),
                                  zeros({channels}, f32), ones({channels}, f32), 0.1};
  const auto train = [=, &backend] {
    backend.batch_norm_train(g, x, gamma, beta, added, y, mean, inverse_deviation, running);
  };
  if (part == Part::train) return {train, bytes_of({x, added, y}), x.bytes()};
  if (part == Part::inference) {
    return {[=, &backend] {
              backend.batch_norm_inference(g, x, gamma, beta, added, running.mean, running.variance,
                                           y);
            },
            bytes_of({x, added, y})};
  }
  train();
  const Tensor dy = random(shape, 3), dx = empty(shape, bf16);
  const Tensor dgamma = empty({channels}, f32), dbeta = empty({channels}, f32);
  const Tensor dresidual = residual ? empty(shape, bf16) : Tensor();
  const auto backward = [=, &backend] {
    backend.batch_norm_backward(g, true, x, gamma, beta, y, mean, inverse_deviation, {dy, {}}, dx,
                                dgamma, dbeta, dresidual);
  };
  // The slope follows from x without a residual, and dz is dresidual with one.
  if (residual) return {backward, bytes_of({x, y, dy, dx, dresidual}), bytes_of({x, dresidual})};
  return {backward, bytes_of({x, dy, dx}), bytes_of({x, dy})};
}

/// The end of a residual block with a projection, whose result two layers read.
Run batch_norm_pair(const Shape& shape, bool backward, bool joint) {
  Backend& backend = backend_of(gpu);
  const Shape channels{shape[3]};
  const auto norm = [&](uint64_t stream) {
    return TrainingNorm{.geometry = {.rows = shape.count() / shape[3],
                                     .channels = shape[3],
                                     .n = shape[0],
                                     .h = shape[1],
                                     .w = shape[2],
                                     .activation = {},
                                     .dtype = DType::bf16},
                        .x = random(shape, stream),
                        .gamma = ones(channels, f32),
                        .beta = zeros(channels, f32),
                        .mean = zeros(channels, f32),
                        .inverse_deviation = ones(channels, f32),
                        .running = {zeros(channels, f32), ones(channels, f32), zeros(channels, f32),
                                    ones(channels, f32), 0.1}};
  };
  TrainingNorm own = norm(1);
  const TrainingNorm added = norm(2);
  own.geometry.activation = {Activation::relu};
  const Tensor y = empty(shape, bf16), between = joint ? Tensor() : empty(shape, bf16);
  const auto forward = [=, &backend] {
    if (joint) return backend.batch_norm_pairs()->normalise(own, added, y);
    backend.batch_norm_train(added.geometry, added.x, added.gamma, added.beta, {}, between,
                             added.mean, added.inverse_deviation, added.running);
    BatchNormGeometry with_residual = own.geometry;
    with_residual.residual = true;
    backend.batch_norm_train(with_residual, own.x, own.gamma, own.beta, between, y, own.mean,
                             own.inverse_deviation, own.running);
  };
  const int64_t one = y.bytes();
  if (!backward) return {forward, 3 * one, joint ? 2 * one : 4 * one};
  forward();
  const GradientParts dy{random(shape, 3), random(shape, 4)};
  const auto gradients = [&] {
    return NormGradients{empty(shape, bf16), empty(channels, f32), empty(channels, f32)};
  };
  const NormGradients of_own = gradients(), of_added = gradients();
  const auto run = [=, &backend] {
    if (joint) return backend.batch_norm_pairs()->backward(own, added, dy, of_own, of_added);
    BatchNormGeometry with_residual = own.geometry;
    with_residual.residual = true;
    backend.batch_norm_backward(with_residual, true, own.x, own.gamma, own.beta, y, own.mean,
                                own.inverse_deviation, dy, of_own.dx, of_own.dgamma, of_own.dbeta,
                                between);
    backend.batch_norm_backward(added.geometry, true, added.x, added.gamma, added.beta, {},
                                added.mean, added.inverse_deviation, {between, {}}, of_added.dx,
                                of_added.dgamma, of_added.dbeta, {});
  };
  return {run, 6 * one, joint ? 4 * one : 7 * one};
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  const Pool2dOptions stem{.kernel = 3, .stride = Pair(2), .padding = 1};
  for (const bool backward : {false, true}) {
    const char* way = backward ? "backward" : "forward";
    rows.push_back({fmt::format("max_pool_3x3_s2_{}", way), [=] {
                      return max_pool({256, 112, 112, 64}, stem, backward);
                    }});
    rows.push_back({fmt::format("max_pool_2x2_{}", way), [=] {
                      return max_pool({256, 112, 112, 64}, {.kernel = 2}, backward);
                    }});
  }
  const Shape maps[] = {{256, 112, 112, 64},
                        {256, 56, 56, 64},
                        {256, 28, 28, 128},
                        {256, 14, 14, 256},
                        {256, 7, 7, 512}};
  for (const Shape& map : maps) {
    const auto add = [&](const char* name, Part part, bool residual) {
      rows.push_back({fmt::format("batch_norm_{}_{}x{}x{}", name, map[1], map[2], map[3]),
                      [=] { return batch_norm(map, part, residual); }});
    };
    add("forward", Part::train, false);
    add("inference", Part::inference, false);
    add("backward", Part::backward, false);
    add("residual_forward", Part::train, true);
    add("residual_backward", Part::backward, true);
  }
  const Shape block_ends[] = {{256, 28, 28, 128}, {256, 14, 14, 256}, {256, 7, 7, 512},
                              {256, 56, 56, 256}, {256, 28, 28, 512}, {256, 14, 14, 1024},
                              {256, 7, 7, 2048}};
  for (const Shape& map : block_ends) {
    for (const bool backward : {false, true}) {
      for (const bool joint : {true, false}) {
        rows.push_back({fmt::format("batch_norm_{}_{}_{}x{}x{}", joint ? "pair" : "apart",
                                    backward ? "backward" : "forward", map[1], map[2], map[3]),
                        [=] { return batch_norm_pair(map, backward, joint); }});
      }
    }
  }
  return rows;
}

/// Of one run, where all of `runs` are made one after the other, several times.
double microseconds(const std::vector<Run>& runs) {
  constexpr int least = 20;
  const int turns = std::max(1, least / static_cast<int>(runs.size()));
  const auto graph = backend_of(gpu).capture([&] {
    for (int turn = 0; turn < turns; ++turn) {
      for (const Run& run : runs) run.run();
    }
  });
  std::vector<double> times;
  for (int group = 0; group < 10; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int replay = 0; replay < 3; ++replay) graph->replay();
    backend_of(gpu).synchronize();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / 3 / turns / static_cast<double>(runs.size()));
  }
  times.erase(times.begin());
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void report(const Row& row, const Ceilings& ceilings) {
  constexpr int64_t beyond_caches = int64_t{512} << 20;
  std::vector<Run> runs{row.make()};
  runs.front().run();
  const double cached = microseconds(runs);
  const int64_t bytes = runs.front().bytes;
  for (int64_t held = bytes; held < beyond_caches; held += bytes) runs.push_back(row.make());
  const double time = microseconds(runs);
  const auto at_ceiling = [&](int64_t count) {
    return static_cast<double>(count) / ceilings.gb_per_s / 1e3;
  };
  const double floor = at_ceiling(bytes);
  fmt::print(
      "{{\"operator\":\"{}\",\"dtype\":\"bf16\",\"us\":{:.2f},\"cached_us\":{:.2f},\"mb\":{:.1f},"
      "\"floor_us\":{:.2f},\"passes_us\":{:.2f},\"over_floor\":{:.2f},\"gb_per_s\":{:.0f}}}\n",
      row.id, time, cached, static_cast<double>(bytes) / 1e6, floor,
      at_ceiling(bytes + runs.front().bytes_again), time / floor, ceilings.gb_per_s);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const Ceilings ceilings = measure_ceilings(gpu, DType::bf16);
  const NoGrad only_kernels;
  size_t found = 0;
  for (const Row& row : all_rows()) {
    if (!wanted.empty() && std::ranges::find(wanted, row.id) == wanted.end()) continue;
    report(row, ceilings);
    ++found;
  }
  if (found < wanted.size()) {
    fail(ErrorKind::usage,
         "bench_operators: {} of {} IDs are unknown. Without any, all are listed.",
         wanted.size() - found, wanted.size());
  }
} catch (const whisker::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
