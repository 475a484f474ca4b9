// Every remedy is the same prediction with one setting changed.
#include "train/planning/memory_advice.h"

#include "core/backend/backend.h"
#include "core/io/text.h"
#include "core/nvidia/cuda_library.h"
#include "layers/recomputed_blocks.h"

#include <algorithm>

namespace whisker {
namespace {

int64_t moments_of(const OptimizerOptions& optimizer) {
  return static_cast<int64_t>(Optimizer::moment_names(optimizer).size());
}

MemoryPrediction predict(const Experiment& experiment, int64_t batch,
                         const SummaryOptions& options) {
  Model model = experiment.network->model();
  model.input = model.input.with(model.batch_axis, batch);
  return summarize(model, options).training;
}

// Bytes of the device that examples hold: a cache of images, and batches on their way.
int64_t input_bytes(const Experiment& experiment) {
  return backend_of(experiment.device)
      .memory_stats()
      .by_category[static_cast<size_t>(MemoryCategory::input)];
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(bytes));
}

// What a batch is made of, "s" behind it for several, and what makes one of them smaller.
struct Example {
  const char* name;
  const char* smaller;
};

Example example_of(const DataConfig& data) {
  switch (data.kind) {
    case DataKind::images:
      return {"image", data.train_image_size > 0 ? "use a smaller data.train_image_size or network"
                                                 : "use a smaller data.image_size or network"};
    case DataKind::text:
      return {"text", "cut texts with data.text.max_length or use a smaller network"};
    case DataKind::language:
      return {"sequence", "use a smaller data.text.steps or network"};
    case DataKind::rows:
      return {"row", "use shorter rows or a smaller network"};
    case DataKind::series:
      return {"window", "use a smaller data.series.window or network"};
  }
  fail(ErrorKind::internal, "memory_advice: data of no kind");
}

// Predictions include a margin for kernels: batches that they exclude may fit.
std::string batch_advice(const Config& config, int64_t fits, int world) {
  if (fits < 1 && config.train.batch_size == 1) {
    const Example example = example_of(config.data);
    return fmt::format("Not even a batch of one {} fits: {}.", example.name, example.smaller);
  }
  return fmt::format("{}; train.batch_size=auto finds the largest that does.",
                     fits > 0 ? fmt::format("train.batch_size={} should fit", fits * world)
                              : "A smaller train.batch_size may fit");
}

// A list has no key beside it.
std::string recompute_setting(const YamlNode& model) {
  if (model.is_map()) return "model.recompute=true";
  if (model.is_scalar())
    return fmt::format("'model={{preset: {}, recompute: true}}'", model.text());
  return "model.recompute: true beside model.layers";
}

/// Collects what is worth telling.
class Remedies {
 public:
  explicit Remedies(int64_t total) : total_(total) {}
  void add(std::string settings, int64_t saved, std::string note = "") {
    if (saved * 100 < total_) return;
    found_.push_back(
        {.settings = std::move(settings), .note = std::move(note), .saved_bytes = saved});
  }
  std::vector<MemoryRemedy> sorted() && {
    std::ranges::stable_sort(found_, std::greater(), &MemoryRemedy::saved_bytes);
    return std::move(found_);
  }

 private:
  int64_t total_;
  std::vector<MemoryRemedy> found_;
};

}  // namespace

SummaryOptions summary_options(const Config& config, DType compute, Device device) {
  return {.moments_per_parameter = static_cast<int>(moments_of(config.optimizer)),
          .averaged = config.ema.decay > 0,
          .compute = compute,
          .wide_gradients = config.train.accumulate > 1,
          .device = device};
}

MemoryPrediction predict_memory(const Experiment& experiment, int64_t batch) {
  return predict(
      experiment, batch,
      summary_options(experiment.config, experiment.arena->compute_dtype(), experiment.device));
}

int64_t batch_that_fits(const Experiment& experiment, int64_t capacity_bytes) {
  const int64_t present = experiment.data.part.of(experiment.config.train.batch_size);
  // On the CPU kernels work in copies with channels padded to the vector's length: up to half as
  // much again as all tensors, twice that for few channels.
  const bool gpu = experiment.device.kind == DeviceKind::cuda;
  const int64_t usable =
      (gpu ? capacity_bytes / 5 * 4 : capacity_bytes / 3) - input_bytes(experiment);
  const auto fits = [&](int64_t batch) {
    return predict_memory(experiment, batch).total() <= usable;
  };
  if (fits(present)) return present / 2;  // something is not predicted
  int64_t largest = 0, too_large = present;
  while (too_large - largest > 1) {
    const int64_t middle = largest + (too_large - largest) / 2;
    (fits(middle) ? largest : too_large) = middle;
  }
  return largest;
}

std::vector<MemoryRemedy> memory_remedies(const Experiment& experiment, int64_t capacity_bytes) {
  const Config& config = experiment.config;
  const int64_t batch = experiment.data.part.of(config.train.batch_size);
  const int world = experiment.ranks->world();
  const SummaryOptions options =
      summary_options(config, experiment.arena->compute_dtype(), experiment.device);
  const int64_t total = predict(experiment, batch, options).tensors();
  const auto saved_by = [&](int64_t with_batch, const SummaryOptions& with) {
    return total - predict(experiment, with_batch, with).tensors();
  };
  Remedies remedies(total);
  if (const int64_t fits = batch_that_fits(experiment, capacity_bytes); fits > 0) {
    remedies.add(fmt::format("train.batch_size={}", fits * world), saved_by(fits, options));
    const int64_t parts = (batch + fits - 1) / fits;
    SummaryOptions summed = options;
    summed.wide_gradients = true;
    remedies.add(fmt::format("train.batch_size={} train.accumulate={}", batch / parts * world,
                             parts * config.train.accumulate),
                 saved_by(batch / parts, summed),
                 fmt::format("about as many {}s per update", example_of(config.data).name));
  }
  if (options.compute == DType::f32 && experiment.device.kind != DeviceKind::reference) {
    SummaryOptions narrow = options;
    const bool gpu = experiment.device.kind == DeviceKind::cuda;
    narrow.compute = gpu ? compute_dtype(PrecisionKind::automatic, experiment.device) : DType::bf16;
    remedies.add(fmt::format("precision={}", name_of(narrow.compute)), saved_by(batch, narrow));
  }
  if (recomputed_blocks(*experiment.network->model().net).empty()) {
    SummaryOptions again = options;
    again.recompute = true;
    remedies.add(recompute_setting(config.model), saved_by(batch, again),
                 "blocks run twice: up to a third more time");
  }
  const int64_t moment = ParameterArena::bytes_of(experiment.arena->parameters(), {}).trainable;
  if (moments_of(config.optimizer) > 0) {
    OptimizerOptions plain = config.optimizer;
    plain.kind = OptimizerKind::sgd;
    plain.momentum = 0;
    std::string settings = "optimizer.kind=sgd";
    if (config.optimizer.momentum != 0) settings += " optimizer.momentum=0";
    if (config.optimizer.nesterov) settings += " optimizer.nesterov=false";
    remedies.add(settings, moment * (moments_of(config.optimizer) - moments_of(plain)),
                 "no moments; try another lr");
  }
  if (config.ema.decay > 0) remedies.add("ema.decay=0", moment, "no average");
  if (config.data.kind == DataKind::images && config.data.cache == CacheKind::device &&
      experiment.device.kind == DeviceKind::cuda) {
    remedies.add("data.cache=memory", input_bytes(experiment), "images stay in host memory");
  }
  return std::move(remedies).sorted();
}

std::string memory_advice(const Experiment& experiment, int64_t capacity_bytes) {
  const Config& config = experiment.config;
  const int64_t batch = experiment.data.part.of(config.train.batch_size);
  std::string text =
      batch_advice(config, batch_that_fits(experiment, capacity_bytes), experiment.ranks->world());
  const auto remedies = memory_remedies(experiment, capacity_bytes);
  if (remedies.empty()) return text;
  text += fmt::format(" Of the {} predicted for {} {}{} are saved by",
                      bytes_text(predict_memory(experiment, batch).total()), batch,
                      example_of(config.data).name, batch == 1 ? "" : "s");
  for (size_t i = 0; i < remedies.size(); ++i) {
    const MemoryRemedy& remedy = remedies[i];
    text += fmt::format("{} {}: {}{}", i == 0 ? "" : ";", remedy.settings,
                        bytes_text(remedy.saved_bytes),
                        remedy.note.empty() ? "" : fmt::format(" ({})", remedy.note));
  }
  return text + ".";
}

}  // namespace whisker
