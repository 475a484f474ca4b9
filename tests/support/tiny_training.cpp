#include "tests/support/tiny_training.h"

#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/image_files.h"
#include "tests/support/overrides.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <stdexcept>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

// Stripes along x, y or a diagonal, in two colours that differ from image to image.
int stripe_level(int direction, int number, int x, int y) {
  const int across = direction == 0 ? y : direction == 1 ? x : direction == 2 ? x + y : x - y + 100;
  return (across + number) / 3 % 2;
}

Image stripes(int direction, int number) {
  Image image;
  image.reshape(16 + number % 7, 20 + number % 7);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const bool bright = stripe_level(direction, number, x, y) == 1;
      for (int c = 0; c < 3; ++c) {
        const int shade = number * 37 * (c + 1) % 90;
        image.row(y)[3 * x + c] = static_cast<uint8_t>(bright ? 250 - shade : 5 + shade);
      }
    }
  }
  return image;
}

constexpr const char* yaml_text = R"(device: cpu
data:
  image_size: 16
  workers: 2
model:
  layers:
    - conv2d: {filters: 8, kernel: 3}
    - batch_norm: {activation: relu}
    - dropout: 0.1
    - max_pool2d: 2
    - conv2d: {filters: 8, kernel: 3, activation: relu}
    - global_avg_pool2d
  head:
    - dense: {units: classes}
optimizer: {kind: adam, lr: 0.01}
train: {epochs: 3, batch_size: 8, log_every: 1}
)";

}  // namespace

void write_stripes(const std::filesystem::path& dir, int classes, int per_class, int first) {
  for (int c = 0; c < classes; ++c) {
    const std::filesystem::path folder = dir / fmt::format("c{}", c);
    std::filesystem::create_directories(folder);
    for (int i = first; i < first + per_class; ++i) {
      const Image image = stripes(c, i);
      Buffer file;
      if (i % 2 == 0) {
        file = write_jpeg(image);
      } else {
        file = write_png({.width = image.width, .height = image.height},
                         [&](int x, int y, int channel) { return image.row(y)[3 * x + channel]; });
      }
      const std::filesystem::path path =
          folder / fmt::format("{:03}.{}", i, i % 2 == 0 ? "jpg" : "png");
      std::ofstream out(path, std::ios::binary);
      out.write(reinterpret_cast<const char*>(file.data()),
                static_cast<std::streamsize>(file.size()));
      if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
    }
  }
}

StripeFolder::StripeFolder(int classes, int train_per_class, int val_per_class) {
  write_stripes(folder_ / "train", classes, train_per_class);
  write_stripes(folder_ / "val", classes, val_per_class, 1000);
}

std::string StripeFolder::yaml() const {
  return yaml_text;
}

Config StripeFolder::config(const std::vector<std::string>& overrides) const {
  return read_config_text(
      yaml_text, "tiny.yaml",
      joined({"data.train=" + (folder_ / "train").string(),
              "data.val=" + (folder_ / "val").string(), "runs=" + (folder_ / "runs").string()},
             overrides));
}

TrainStepOptions rerun(int* captures) {
  class Rerun final : public CapturedGraph {
   public:
    explicit Rerun(std::function<void()> work) : work_(std::move(work)) {}
    void replay() override { work_(); }

   private:
    std::function<void()> work_;
  };
  return {.capture = [captures](const std::function<void()>& work) {
    ++*captures;
    return std::make_unique<Rerun>(work);
  }};
}

std::vector<std::string> lively_overrides() {
  return {"augment.random_resized_crop=true",
          "augment.crop_scale=[0.5, 1]",
          "augment.horizontal_flip=true",
          "augment.brightness=0.2",
          "augment.mixup=0.2",
          "loss.label_smoothing=0.1",
          "ema.decay=0.9",
          "train.accumulate=2",
          "schedule.kind=one_cycle"};
}

TestRun::TestRun(Config config, const std::optional<std::filesystem::path>& resume,
                 TrainStepOptions step)
    : experiment(std::move(config), resume ? StartFrom::checkpoint : StartFrom::initial_weights),
      folder([&] {
        if (resume) return RunFolder::open(*resume);
        RunFolder made = RunFolder::create(experiment.config.runs, experiment.config.name);
        std::ofstream(made.config()) << print_config(experiment.config);
        return made;
      }()),
      trainer(experiment, folder, recorder, stop, std::move(step)) {
  if (resume) trainer.resume();
}

TrainResult TestRun::train() {
  return trainer.run();
}

std::filesystem::path stopped_at(const Config& config, int64_t k) {
  TestRun run(config);
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step >= k) run.stop = 15;
  };
  EXPECT_EQ(run.train().reason, StopReason::signal);
  return run.folder.path();
}

std::string hash_of_run(const Config& config, const std::optional<std::filesystem::path>& resume) {
  TestRun run(config, resume);
  EXPECT_EQ(run.train().reason, StopReason::finished);
  return hash_of(run.experiment);
}

const Parameter& parameter_named(const Experiment& experiment, std::string_view name) {
  for (const auto& parameter : experiment.arena->parameters()) {
    if (parameter->name() == name) return *parameter;
  }
  throw std::invalid_argument("no parameter " + std::string(name));
}

void overflow(const Network& network) {
  for (const auto& parameter : network.arena().parameters()) {
    const auto count = static_cast<size_t>(parameter->shape().count());
    network.arena().write(*parameter,
                          std::vector<float>(count, std::numeric_limits<float>::max()));
  }
}

void poison(const Experiment& experiment, const std::string& name, float value) {
  const Parameter& parameter = parameter_named(experiment, name);
  std::vector<float> values = experiment.arena->read(parameter);
  values[values.size() / 2] = value;
  experiment.arena->write(parameter, values);
}

std::vector<double> weights_of(const Experiment& experiment) {
  std::vector<double> all;
  for (const auto& parameter : experiment.arena->parameters()) {
    for (const float value : experiment.arena->read(*parameter)) all.push_back(value);
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

std::string hash_of(const Experiment& experiment) {
  Hash64 hash;
  const auto add = [&](const std::vector<float>& values) {
    hash.update(std::as_bytes(std::span(values)));
  };
  for (const auto& parameter : experiment.arena->parameters()) {
    add(experiment.arena->read(*parameter));
    if (!parameter->trainable()) continue;
    for (const Optimizer::Moment& moment : experiment.optimizer->moments()) {
      add(experiment.arena->read(moment.flat, *parameter));
    }
    if (experiment.average) add(experiment.arena->read(experiment.average->flat(), *parameter));
  }
  hash.update(fmt::format("{}", experiment.optimizer->steps()));
  return hash.hex();
}

std::string metrics_without_times(const std::filesystem::path& run) {
  const std::string text = read_file(run / "metrics.jsonl", 1 << 24, ErrorKind::data);
  static const std::regex times("\"(seconds|images_per_s|time)\":(\\{[^}]*\\}|[^,}]*)");
  return std::regex_replace(text, times, "\"$1\":0");
}

}  // namespace whisker::test
