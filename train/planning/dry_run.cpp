#include "train/planning/dry_run.h"

#include "core/backend/backend.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/batch_source.h"
#include "train/loop/train_step.h"
#include "train/planning/batch_size_search.h"
#include "train/planning/memory_advice.h"

#include <chrono>

namespace whisker {

std::string dry_run(Config config) {
  config.data.cache = CacheKind::none;
  settle_batch_size(config);
  config.features = FeatureKind::computed;
  Experiment experiment(std::move(config));
  experiment.unfreeze();  // a run needs most time and memory then
  Backend& backend = backend_of(experiment.device);
  experiment.train->start_epoch(0);
  const std::optional<Batch> batch = experiment.train->next();
  if (!batch) fail(ErrorKind::data, "data.train: no batch could be read");

  double step_seconds = 0;
  TrainStep step(experiment);
  with_memory_advice(experiment, [&] {
    for (int64_t left = step.warm_up_batches(); left >= 0; --left) {  // the last one tells the time
      const auto start = std::chrono::steady_clock::now();
      step.begin({});
      step.run(*batch, {.number = 1, .learning_rate = 0, .last_of_epoch = true});
      step.read();
      step_seconds = seconds_since(start);
    }
  });
  const double loss = step.read().totals.loss / static_cast<double>(batch->labels.count());
  int64_t parameters = 0, trainable = 0;
  for (const auto& parameter : experiment.arena->parameters()) {
    if (parameter->is_buffer()) continue;
    parameters += parameter->shape().count();
    if (parameter->trainable()) trainable += parameter->shape().count();
  }
  const MemoryStats memory = backend.memory_stats();
  const auto batches = static_cast<double>(experiment.batches_per_epoch());
  std::string text = fmt::format(
      "data        {}\n"
      "model       {} parameters, {} trained\n"
      "batch       {} {}, loss {:.4f}\n"
      "memory      peak {}: ",
      experiment.data.describe(), parameters, trainable, batch->labels.count(),
      experiment.data.signature.examples(), loss, human_bytes(static_cast<uint64_t>(memory.peak)));
  int64_t lasting = 0;  // what is held from step to step; the rest comes and goes within one
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer}) {
    const int64_t bytes = memory.by_category[static_cast<size_t>(category)];
    lasting += bytes;
    text += fmt::format("{} {}, ", name_of(category), human_bytes(static_cast<uint64_t>(bytes)));
  }
  text += fmt::format("activations and the rest {}",
                      human_bytes(static_cast<uint64_t>(memory.peak - lasting)));
  text += fmt::format(
      "\ntime        {:.2f} ms per step, {:.1f} s per epoch of {} without waiting for data\n",
      1e3 * step_seconds, step_seconds * batches, counted(experiment.batches_per_epoch(), "step"));
  for (const std::string& line : experiment.notes) {
    text += fmt::format("note        {}\n", printable(line));
  }
  return text;
}

}  // namespace whisker
