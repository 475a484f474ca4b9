// One full training step (forward, backward, Adam) of the networks that BENCHMARKS names, on random
// pictures. One JSON line: milliseconds (median, min, max of the groups), images/s, memory.
// usage: bench_step MODEL [--batch N] [--groups N] [--steps N]     MODEL: keras64 chollet128
// resnet18 small_resnet
#include "core/backend.h"
#include "core/io/json.h"
#include "core/ops.h"
#include "layers/model_builder.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/resource.h>

namespace {

using namespace whisker;

struct Workload {
  const char* id;
  int64_t side;
  int64_t classes;
  int64_t batch;
  const char* model;
};

constexpr Workload workloads[] = {
    {"keras64", 64, 2, 32,
     "layers: [conv2d: {filters: 32, kernel: 3, activation: relu}, max_pool2d: 2, conv2d: "
     "{filters: 32, "
     "kernel: 3, activation: relu}, max_pool2d: 2, flatten, dense: {units: 128, activation: relu}, "
     "dense: "
     "{units: classes}]"},
    {"chollet128", 128, 2, 32, "chollet"},
    {"resnet18", 224, 1000, 16, "resnet18"},
    {"small_resnet", 128, 2, 32, "small_resnet"},
};

double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int64_t option(int argc, char** argv, const std::string& name, int64_t fallback) {
  for (int i = 2; i + 1 < argc; i += 2) {
    if (argv[i] == name) return std::atoll(argv[i + 1]);
  }
  return fallback;
}

void measure(const Workload& workload, int64_t batch, int64_t groups, int64_t steps) {
  const Model model =
      build_model(YamlNode::parse(workload.model, workload.id),
                  {.input = {batch, workload.side, workload.side, 3}, .classes = workload.classes});
  ParameterArena arena(model.net->parameters(), cpu_device, 1);
  Optimizer optimizer(arena, {.kind = OptimizerKind::adam});
  const Tensor images = rand_normal(model.input, 0, 1, 1, 2);
  std::vector<double> classes;
  for (int64_t i = 0; i < batch; ++i) classes.push_back(static_cast<double>(i % workload.classes));
  const Tensor labels = from_vector(classes, {batch}, {.dtype = DType::i64});

  uint64_t step = 0;
  const auto run_step = [&] {
    arena.zero_grad();
    const Tensor loss = cross_entropy(
        model.net->forward(images, {.training = true, .seed = 1, .step = step++}), labels);
    backward(loss);
    optimizer.step(1e-3);
    arena.commit_buffers();
  };
  using Clock = std::chrono::steady_clock;
  for (int warm_up = 0; warm_up < 3; ++warm_up) run_step();
  backend_of(cpu_device).reset_peak();
  std::vector<double> milliseconds;
  for (int64_t group = 0; group < groups; ++group) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < steps; ++i) run_step();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
                           static_cast<double>(steps));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const double median = milliseconds[milliseconds.size() / 2];
  JsonWriter json;
  json.begin_object().field("id", workload.id).field("batch", batch).field("precision", "f32");
  json.field("device", "cpu").field("milliseconds", median).field("min", milliseconds.front());
  json.field("max", milliseconds.back()).field("groups", groups);
  json.field("images_per_s", 1e3 * static_cast<double>(batch) / median);
  json.field("peak_bytes", backend_of(cpu_device).memory_stats().peak);
  json.field("resident_mib", resident_mib()).end_object();
  std::puts(json.str().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  for (const Workload& workload : workloads) {
    if (argc < 2 || std::string(argv[1]) != workload.id) continue;
    measure(workload, option(argc, argv, "--batch", workload.batch),
            option(argc, argv, "--groups", 10), option(argc, argv, "--steps", 3));
    return 0;
  }
  std::fputs(
      "usage: bench_step keras64|chollet128|resnet18|small_resnet [--batch N] [--groups N] "
      "[--steps N]\n",
      stderr);
  return 2;
}
