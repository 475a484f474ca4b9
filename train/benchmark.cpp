// Training steps on a GPU follow one another without waiting; marks between them tell their times.
#include "train/benchmark.h"

#include "core/cuda_library.h"
#include "core/ops.h"
#include "layers/plan.h"
#include "train/experiment.h"
#include "train/memory_advice.h"
#include "train/train_step.h"

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

struct Work {
  double operations = 0, bytes = 0;
};

// Two operations per multiply-add, forward and for each gradient that is wanted; every operand and
// result of an operator is read or written once.
Work work_of(const Experiment& experiment, bool inference) {
  const Model& model = experiment.network->model();
  const Plan plan = Plan::of(*model.net, model.input);
  const double width = static_cast<double>(size_of(experiment.arena->compute_dtype()));
  Work work;
  for (const PlannedOperator& op : plan.operators()) {
    if (op.cost.view) continue;
    const double output = width * static_cast<double>(plan.shape(op.output).count());
    double inputs = 0, wanted = 0;
    for (const int input : op.inputs) {
      const double bytes = width * static_cast<double>(plan.shape(input).count());
      inputs += bytes;
      if (plan.needs_grad(input)) wanted += bytes;
    }
    const double products = 2 * static_cast<double>(op.cost.multiply_adds);
    work.operations += products;
    work.bytes += inputs + output;
    if (inference || !plan.needs_grad(op.output)) continue;
    const bool trained = !op.layer->own_parameters().empty() && !op.layer->frozen();
    work.operations += products * ((wanted > 0) + trained);
    work.bytes +=
        output + wanted + (op.cost.keeps_input ? inputs : 0) + (op.cost.keeps_output ? output : 0);
  }
  const MemoryPrediction memory = predict_memory(experiment, model.input[model.batch_axis]);
  work.bytes += static_cast<double>(memory.values);
  // The update reads and writes masters and moments and reads gradients, which were written.
  if (!inference) {
    work.bytes += static_cast<double>(memory.values + 2 * memory.optimizer + 2 * memory.gradients);
  }
  return work;
}

class TrainingBench {
 public:
  TrainingBench(Experiment& experiment, const Batch& batch)
      : experiment_(experiment), batch_(batch), step_(experiment) {}

  void operator()() {
    step_.begin({});
    step_.run(batch_, {.number = ++number_, .learning_rate = 0, .last_of_epoch = true});
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
  const int64_t warm_up = 3 * experiment.config.train.accumulate + 3;
  for (int64_t i = 0; i < warm_up; ++i) step();
  result.milliseconds = time_each(experiment.device, options.steps, [&] { step(); });
  result.captured = step.captured();
  if (options.layers) result.layers = step.layers();
}

void bench_inference(Experiment& experiment, const Batch& batch, const BenchmarkOptions& options,
                     BenchmarkResult& result) {
  const NoGrad off;
  const auto classify = [&] { experiment.network->outputs(batch).to_vector(); };
  for (int i = 0; i < 3; ++i) classify();
  for (int64_t i = 0; i < options.steps; ++i) {
    const Clock::time_point start = Clock::now();
    classify();
    result.milliseconds.push_back(milliseconds_since(start));
  }
}

double fastest(Device device, const std::function<void()>& work) {
  time_each(device, 2, work);
  const std::vector<double> times = time_each(device, 5, work);
  return *std::ranges::min_element(times);
}

}  // namespace

double BenchmarkResult::quantile(double share) const {
  const double last = static_cast<double>(milliseconds.size()) - 1;
  return milliseconds[static_cast<size_t>(std::lround(share * last))];
}

BenchmarkResult run_benchmark(Config config, const BenchmarkOptions& options) {
  if (options.steps < 1) {
    fail(ErrorKind::usage, "bench --steps: expected at least 1, got {}.", options.steps);
  }
  config.data.cache = CacheKind::none;
  config.data.prefetch = 1;
  config.train.drop_last = false;
  Experiment experiment(std::move(config));
  Backend& backend = backend_of(experiment.device);
  experiment.train->start_epoch(0);
  const std::optional<Batch> batch = experiment.train->next();
  if (!batch) fail(ErrorKind::data, "data.train: no batch of pictures could be read");
  if (batch->size() < experiment.config.train.batch_size) {
    fail(ErrorKind::data, "train.batch_size: {} pictures are wanted, data.train has {}. Use less.",
         experiment.config.train.batch_size, batch->size());
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
  const Work work = work_of(experiment, options.inference);
  result.operations = work.operations;
  result.bytes = work.bytes;
  return result;
}

Ceilings measure_ceilings(const Config& config) {
  const NoGrad off;
  const Device device = resolve_device(config.device);
  configure_backend(config, device);
  const bool gpu = device.kind == DeviceKind::cuda;
  const DType dtype = compute_dtype(config.precision, device, gpu ? cuda_gpu(device) : CudaGpu());
  const TensorOptions options{.dtype = dtype, .device = device};
  Ceilings ceilings;
  {
    const int64_t side = gpu ? 8192 : 1024;
    const Tensor a = ones({side, side}, options), b = ones({side, side}, options);
    const double ms = fastest(device, [&] { matmul(a, b); });
    ceilings.tflops = 2 * std::pow(static_cast<double>(side), 3) / ms / 1e9;
  }
  const int64_t bytes = int64_t{1} << (gpu ? 30 : 26);
  const TensorOptions plain{.dtype = DType::u8, .device = device};
  const Tensor from = zeros({bytes}, plain), to = zeros({bytes}, plain);
  const double ms = fastest(device, [&] { backend_of(device).copy(from.raw(), to.raw(), bytes); });
  ceilings.gb_per_s = 2 * static_cast<double>(bytes) / ms / 1e6;
  return ceilings;
}

}  // namespace whisker
