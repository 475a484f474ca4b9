// One full training step (forward, backward, Adam) of the networks that BENCHMARKS names, on random
// inputs. One JSON line: milliseconds (median, min, max of the groups), examples/s, memory. On a
// GPU the step is captured (--graph 0: not) and timed as one group of replays after the other. The
// floor (layers/analysis/step_work.h) is that of ceilings measured in the same run, after the step.
// usage: bench_step ROW [--device cpu|cuda] [--precision f32|bf16|f16] [--batch N] [--groups N]
//                   [--steps N] [--graph 0|1] [--search SECONDS] [--plans 1] [--recompute 1]
// Started as several ranks (bench/compare_pytorch.py --gpus 2, mpirun on a CPU), every rank takes
// --batch examples and gradients are summed as in training; rank 0 prints, examples/s of all ranks,
// and sum_share, the share of its own step that waits for those sums.
// --search: what timing algorithms may take on a GPU before anything is measured; 0: the libraries'
// first proposals. --plans 1 prints the choices on stderr. --recompute 1: as model.recompute: true.
#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/communicator/communicator.h"
#include "core/io/json.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "layers/builder/model_builder.h"
#include "layers/recomputed_blocks.h"
#include "optim/optimizer.h"
#include "train/device/device_choice.h"
#include "train/loop/gradient_sum.h"
#include "train/planning/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/resource.h>

namespace {

using namespace whisker;

struct Workload {
  const char* id;
  int64_t side;  // of the images, or features of a sequence; 0: rows of 32 values
  int64_t classes;
  int64_t batch;
  const char* model;
  const char* frozen = nullptr;
  int64_t steps = 0;  // of sequences of `side` features; 0: no sequences
};

constexpr Workload workloads[] = {
    {"keras64", 64, 2, 32,
     "layers: [conv2d: {filters: 32, kernel: 3, activation: relu}, max_pool2d: 2, conv2d: "
     "{filters: 32, kernel: 3, activation: relu}, max_pool2d: 2, flatten, "
     "dense: {units: 128, activation: relu}, dense: {units: classes}]"},
    {"chollet128", 128, 2, 32, "chollet"},
    {"resnet18", 224, 1000, 16, "resnet18"},
    {"resnet50", 224, 1000, 16, "resnet50"},
    {"vgg16ft", 224, 2, 64,
     "{preset: vgg16, head: [flatten, dense: {units: 128, activation: relu}, dense: {units: "
     "classes}]}",
     "features"},
    {"mlp", 0, 32, 32, "layers: [repeat: {n: 20, layers: [dense: {units: 32, activation: relu}]}]"},
    {"small_resnet", 128, 2, 32, "small_resnet"},
    {"mobilenet_v3_small", 224, 1000, 16, "mobilenet_v3_small"},
    {"mobilenet_v3_large", 224, 1000, 256, "mobilenet_v3_large"},
    {"efficientnet_b0", 224, 1000, 8, "efficientnet_b0"},
    {"convnext_tiny", 224, 1000, 128, "convnext_tiny"},
    {"vit_s_16", 224, 1000, 128, "vit_s_16"},
    {"vit_b_16", 224, 1000, 64, "vit_b_16"},
    {"lstm", 256, 10, 64, "layers: [lstm: {units: 512, layers: 2}, dense: classes]", nullptr, 128},
    {"gru", 256, 10, 64, "layers: [gru: {units: 512, layers: 2}, dense: classes]", nullptr, 128},
    {"rnn", 256, 10, 64, "layers: [simple_rnn: {units: 512, layers: 2}, dense: classes]", nullptr,
     128},
};

class Options {
 public:
  Options(int argc, char** argv) : words_(argv + 2, argv + argc) {}

  std::string text(const std::string& name, const std::string& fallback) const {
    for (size_t i = 0; i + 1 < words_.size(); i += 2) {
      if (words_[i] == name) return words_[i + 1];
    }
    return fallback;
  }
  int64_t number(const std::string& name, int64_t fallback) const {
    return std::stoll(text(name, std::to_string(fallback)));
  }

 private:
  std::vector<std::string> words_;
};

// The step itself, over inputs that never change.
class Step {
 public:
  Step(const Workload& workload, const Options& options, const std::shared_ptr<RankGroup>& group)
      : batch(options.number("--batch", workload.batch)),
        device(Device::parse(device_of_rank(options.text("--device", "cpu"), *group))),
        precision(options.text("--precision", "f32")),
        model_(build(workload, batch, options.number("--recompute", 0) != 0)),
        arena_(model_.net->parameters(), device, 1, types(precision)),
        optimizer_(arena_, {.kind = OptimizerKind::adam}, precision == "f16"),
        ranks_(make_communicator(group, device)),
        gradient_sum_(arena_, *ranks_),
        images_(rand_normal(model_.input, 0, 1, 1, 2).to(device).to(arena_.compute_dtype())) {
    std::vector<double> classes;
    for (int64_t i = 0; i < batch; ++i) {
      classes.push_back(static_cast<double>(i % workload.classes));
    }
    labels_ = from_vector(classes, {batch}, {.dtype = DType::i64, .device = device});
    if (ranks() > 1) rank_weight_ = full({}, 1.0 / ranks(), {.device = device});
    if (precision == "f16") {
      optimizer_.memory().write({.loss_scale = first_loss_scale});
    }
    if (device.kind == DeviceKind::cuda) {
      CudaOptions cuda = cuda_options(device);
      cuda.search_seconds = static_cast<double>(options.number("--search", 120));
      set_cuda_options(device, cuda);
    }
    for (int warm_up = 0; warm_up < 3; ++warm_up) enqueue();
    if (options.number("--plans", 0) != 0) {
      std::fprintf(stderr, "%s\n", backend_of(device).export_algorithms().c_str());
    }
    if (options.number("--graph", 1) != 0) {
      graph_ = backend_of(device).capture([&] { enqueue(); });
    }
  }

  void operator()() {
    optimizer_.memory().write_inputs(
        {.batch = batches_++, .learning_rate = 1e-3, .gradient_scale = 1});
    graph_ ? graph_->replay() : enqueue();
  }

  bool captured() const { return graph_ != nullptr; }
  StepWork work() const { return step_work(model_, {.types = types(precision), .moments = 2}); }

  DType compute_dtype() const { return arena_.compute_dtype(); }

  int ranks() const { return ranks_->world(); }
  /// Milliseconds that the last step waited for sums of gradients.
  double waited_ms() const { return 1e3 * ranks_->waited_seconds(); }

  const int64_t batch;  // of a rank
  const Device device;
  const std::string precision;

 private:
  static Model build(const Workload& workload, int64_t batch, bool recompute) {
    const Shape input = workload.steps > 0  ? Shape{workload.steps, batch, workload.side}
                        : workload.side > 0 ? Shape{batch, workload.side, workload.side, 3}
                                            : Shape{batch, 32};
    Model model = build_model(
        YamlNode::parse(workload.model, workload.id),
        {.input = input, .batch_axis = workload.steps > 0 ? 1 : 0, .classes = workload.classes});
    if (workload.frozen) model.net->freeze(std::vector<std::string>{workload.frozen});
    if (recompute) recompute_blocks(*model.net);
    return model;
  }

  static ArenaTypes types(const std::string& precision) {
    if (precision == "f32") return {};
    return {.compute = precision == "bf16" ? DType::bf16 : DType::f16};
  }

  void enqueue() {
    arena_.zero_grad();
    gradient_sum_.begin();
    const Pass pass{.training = true, .seed = 1};
    const Tensor logits = model_.net->forward(images_, pass).to(DType::f32);
    const Tensor loss = cross_entropy(logits, labels_);
    backend_of(device).training_step().count_batch(
        logits, loss, {optimizer_.rule(), labels_, optimizer_.memory().state()});
    BackwardOptions backward_options{.gradient = optimizer_.memory().loss_scale()};
    if (ranks() > 1) {
      backward_options.gradient = mul(backward_options.gradient, rank_weight_);
      backward_options.on_leaf = [this](const Tensor& gradient) {
        gradient_sum_.finished(gradient);
      };
    }
    backward(loss, backward_options);
    arena_.commit_buffers(&optimizer_.memory().state()->sound);
    arena_.complete_gradients();
    gradient_sum_.enqueue(optimizer_.memory());
    optimizer_.enqueue_update();
  }

  Model model_;
  ParameterArena arena_;
  Optimizer optimizer_;
  std::shared_ptr<Communicator> ranks_;
  GradientSum gradient_sum_;
  Tensor images_, labels_, rank_weight_;
  std::unique_ptr<CapturedGraph> graph_;
  int64_t batches_ = 0;
};

double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(const Workload& workload, const Options& options,
             const std::shared_ptr<RankGroup>& all) {
  Step step(workload, options, all);
  Backend& backend = backend_of(step.device);
  const int64_t groups = options.number("--groups", 10);
  const int64_t steps = options.number("--steps", 3);
  const int64_t warm_up = step.captured() ? 10 : 1;
  for (int64_t i = 0; i < warm_up; ++i) step();
  backend.synchronize();
  using Clock = std::chrono::steady_clock;
  std::vector<double> milliseconds, waited;
  for (int64_t group = 0; group < groups; ++group) {
    all->barrier();
    const auto start = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step();
    backend.synchronize();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
                           static_cast<double>(steps));
    waited.push_back(step.waited_ms());
  }
  if (!all->leads()) return;
  std::ranges::sort(milliseconds);
  std::ranges::sort(waited);
  const double median = milliseconds[milliseconds.size() / 2];
  const MemoryStats memory = backend.memory_stats();
  JsonWriter json;
  json.begin_object().field("id", workload.id).field("batch", step.batch);
  json.field("precision", step.precision).field("device", step.device.str());
  json.field("ranks", step.ranks());
  json.field("captured", step.captured()).field("milliseconds", median);
  json.field("min", milliseconds.front()).field("max", milliseconds.back());
  json.field("groups", groups)
      .field("images_per_s", 1e3 * static_cast<double>(step.batch * step.ranks()) / median);
  if (step.ranks() > 1) json.field("sum_share", waited[waited.size() / 2] / median);
  json.field("peak_bytes", step.device == cpu_device ? memory.peak : memory.reserved);
  json.field("resident_mib", resident_mib());
  const StepWork work = step.work();
  const Ceilings ceilings = measure_ceilings(step.device, step.compute_dtype());
  json.field("operations", work.operations()).field("bytes", work.bytes());
  json.field("ceiling_tflops", ceilings.tflops).field("ceiling_gb_per_s", ceilings.gb_per_s);
  const double floor = work.floor_ms(ceilings);
  json.field("floor_ms", floor).field("over_floor", median / floor);
  json.end_object();
  std::puts(json.str().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  for (const Workload& workload : workloads) {
    if (argc < 2 || std::string(argv[1]) != workload.id) continue;
    try {
      const std::shared_ptr<RankGroup> group = join_ranks(rank_environment());
      measure(workload, Options(argc, argv), group);
      group->barrier();
      group->leave();
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bench_step: %s\n", error.what());
      return 1;
    }
  }
  std::fputs(
      "usage: bench_step ROW [--device cpu|cuda] [--precision f32|bf16|f16] [--batch N]\n"
      "                      [--groups N] [--steps N] [--graph 0|1] [--search SECONDS] "
      "[--plans 1]\n"
      "rows:",
      stderr);
  for (const Workload& workload : workloads) std::fprintf(stderr, " %s", workload.id);
  std::fputs("\n", stderr);
  return 2;
}
