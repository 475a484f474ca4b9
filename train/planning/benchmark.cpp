// Training steps on a GPU follow one another without waiting; events between them measure their
// times.
#include "train/planning/benchmark.h"

#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/loop/train_step.h"
#include "train/planning/batch_size_search.h"
#include "train/planning/memory_advice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Milliseconds of each of `count` runs of work that the device does in order.
std::vector<double> time_each(Device device, int64_t count, const std::function<void()>& work) {
  Backend& backend = backend_of(device);
  backend.synchronize();
  std::vector<double> times;
  if (const std::unique_ptr<DeviceClock> clock = backend.make_clock()) {
    clock->mark();
    for (int64_t i = 0; i < count; ++i) {
      work();
      clock->mark();
    }
    const std::vector<double> marks = clock->read();
    for (size_t i = 1; i < marks.size(); ++i) times.push_back(marks[i] - marks[i - 1]);
    return times;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(milliseconds_since(start));
  }
  return times;
}

StepWork work_of(const Experiment& experiment, bool inference) {
  const Model& model = experiment.network->model();
  const ParameterArena& arena = *experiment.arena;
  const int64_t trained = ParameterArena::bytes_of(arena.parameters(), {}).trainable;
  const int64_t kept = predict_memory(experiment, model.input[model.batch_axis]).optimizer;
  ArenaTypes types{.wide_gradients = experiment.config.train.accumulate > 1};
  if (arena.compute_dtype() != DType::f32) types.compute = arena.compute_dtype();
  return step_work(model, {.inference = inference,
                           .types = types,
                           .moments = trained == 0 ? 0 : static_cast<int>(kept / trained)});
}

class TrainingBench {
 public:
  TrainingBench(Experiment& experiment, const Batch& batch)
      : experiment_(experiment), batch_(batch), step_(experiment) {}

  void operator()() {
    step_.begin({});
    step_.run(batch_, {.number = ++number_, .learning_rate = 0, .last_of_epoch = true});
  }
  void warm_up() {
    for (int64_t left = step_.warm_up_batches(); left > 0; --left) (*this)();
  }
  bool captured() const { return step_.replays() > 0; }
  std::vector<LayerTimes> layers() {
    StepTrace trace(experiment_.device);
    constexpr int steps = 3;
    step_.set_trace(&trace);
    for (int i = 0; i < steps; ++i) (*this)();
    step_.set_trace(nullptr);
    std::vector<LayerTimes> layers = trace.layers();
    for (LayerTimes& times : layers) {
      times.forward_ms /= steps;
      times.backward_ms /= steps;
    }
    return layers;
  }

 private:
  Experiment& experiment_;
  const Batch& batch_;
  TrainStep step_;
  int64_t number_ = 0;
};

void bench_training(Experiment& experiment, const Batch& batch, const BenchmarkOptions& options,
                    BenchmarkResult& result) {
  TrainingBench step(experiment, batch);
  step.warm_up();
  result.milliseconds = time_each(experiment.device, options.steps, [&] { step(); });
  result.captured = step.captured();
  if (options.layers) result.layers = step.layers();
}

void bench_inference(Experiment& experiment, const Batch& batch, const BenchmarkOptions& options,
                     BenchmarkResult& result) {
  const NoGrad off;
  const auto classify = [&] { experiment.network->outputs(batch).to(cpu_device); };
  experiment.network->fix_weights(experiment.config.runtime.graph);
  for (int64_t i = 0; i < OutputGraphs::warm_up_batches; ++i) classify();
  for (int64_t i = 0; i < options.steps; ++i) {
    const Clock::time_point start = Clock::now();
    classify();
    result.milliseconds.push_back(milliseconds_since(start));
  }
  result.captured = experiment.network->replays() > 0;
}

double fastest(Device device, const std::function<void()>& work) {
  time_each(device, 2, work);
  const std::vector<double> times = time_each(device, 5, work);
  return *std::ranges::min_element(times);
}

}  // namespace

double BenchmarkResult::quantile(double share) const {
  const size_t last = milliseconds.size() - 1;
  const double place = share * static_cast<double>(last);
  const auto below = static_cast<size_t>(place);
  return std::lerp(milliseconds[below], milliseconds[std::min(below + 1, last)],
                   place - static_cast<double>(below));
}

BenchmarkResult run_benchmark(Config config, const BenchmarkOptions& options) {
  if (options.steps < 1) {
    fail(ErrorKind::usage, "bench --steps: expected at least 1, got {}.", options.steps);
  }
  config.data.cache = CacheKind::none;
  config.data.prefetch = 1;
  config.train.drop_last = false;
  if (options.inference) config.data.train_image_size = 0;
  settle_batch_size(config);
  Experiment experiment(std::move(config));
  Backend& backend = backend_of(experiment.device);
  experiment.train->start_epoch(0);
  const std::optional<Batch> batch = experiment.train->next();
  if (!batch) fail(ErrorKind::data, "data.train: no batch could be read");
  if (batch->size() < experiment.config.train.batch_size) {
    fail(ErrorKind::usage,
         "--batch: expected at most the {} examples of data.train's first batch, got {} (without "
         "--batch that is train.batch_size).",
         batch->size(), experiment.config.train.batch_size);
  }
  BenchmarkResult result{.inference = options.inference,
                         .device = experiment.device.str(),
                         .precision = std::string(name_of(experiment.arena->compute_dtype())),
                         .batch = batch->size(),
                         .steps = options.steps};
  backend.empty_cache();
  backend.reset_peak();
  with_memory_advice(experiment, [&] {
    (options.inference ? bench_inference : bench_training)(experiment, *batch, options, result);
  });
  std::ranges::sort(result.milliseconds);
  const MemoryStats memory = backend.memory_stats();
  result.peak_bytes = memory.peak;
  result.reserved_bytes = memory.reserved;
  result.work = work_of(experiment, options.inference);
  return result;
}

// Ones and zeros would toggle fewer bits, and a GPU that needs less power is faster.
Ceilings measure_ceilings(Device device, DType dtype) {
  const NoGrad off;
  const bool gpu = device.kind == DeviceKind::cuda;
  const int64_t side = gpu ? 8192 : device == reference_device ? 256 : 1024;
  const auto random_matrix = [&](uint64_t stream) {  // a few rows again and again
    const int64_t rows = 64;
    const Tensor own = rand_normal({1, rows, side}, 0, 1, 1, stream).to(device).to(dtype);
    return broadcast_to(own, {side / rows, rows, side}).reshape({side, side});
  };
  const Tensor a = random_matrix(0), b = random_matrix(1);
  Ceilings ceilings;
  double ms = fastest(device, [&] { matmul(a, b); });
  ceilings.tflops = 2 * std::pow(static_cast<double>(side), 3) / ms / 1e9;
  // Larger than any cache.
  const int64_t bytes = int64_t{1} << (gpu ? 30 : 26);
  const TensorOptions plain{.dtype = DType::u8, .device = device};
  const Tensor from = empty({bytes}, plain), to = empty({bytes}, plain);
  Backend& backend = backend_of(device);
  for (int64_t at = 0; at < bytes; at += std::min(bytes, a.bytes())) {
    const int64_t part = std::min(a.bytes(), bytes - at);
    backend.copy(a.raw(), static_cast<char*>(from.raw()) + at, part);
  }
  ms = fastest(device, [&] { backend.copy(from.raw(), to.raw(), bytes); });
  ceilings.gb_per_s = 2 * static_cast<double>(bytes) / ms / 1e6;
  const Tensor one = ones({1}, {.dtype = dtype, .device = device});
  ceilings.overhead_ms = fastest(device, [&] { add(one, one); });
  return ceilings;
}

Ceilings measure_ceilings(const Config& config) {
  const Device device = choose_device(config.device).device;
  configure_backend(config, device);
  return measure_ceilings(device, compute_dtype(config.precision, device));
}

}  // namespace whisker
