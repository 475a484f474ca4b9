// Each candidate size is an Experiment of its own, freed with all its memory before the next one.
#include "train/planning/batch_size_search.h"

#include "core/backend/backend.h"
#include "train/config/memory_limit.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/loop/train_step.h"
#include "train/metrics/evaluate.h"
#include "train/model/freeze_layers.h"
#include "train/model/norm_batches.h"
#include "train/planning/memory_advice.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t first_batch = 32;

// While it lives, tensors on the device may take this much in all.
class MemoryReserve {
 public:
  MemoryReserve(Device device, int64_t bytes, MemoryMode mode) : backend_(backend_of(device)) {
    backend_.set_memory_options(
        {.limit_bytes = bytes, .preallocate_bytes = preallocates(mode, device) ? bytes : 0});
  }
  ~MemoryReserve() {
    try {
      backend_.set_memory_options({});
      backend_.empty_cache();
    } catch (const Error&) {
      // A lost GPU: what lost it is on its way.
    }
  }
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

 private:
  Backend& backend_;
};

// A GPU is a rank's own, host memory is that of all ranks of a machine. Collective.
int64_t free_for_rank(Device device, const MemorySummary& memory, RankGroup& ranks) {
  const int64_t bytes = (memory.stats.allocated + memory.cache() + memory.free) / 10 * 9;
  const std::vector<std::string> hosts = ranks.all_gather(host_name());
  const std::vector<int64_t> found = ranks.gather(bytes);  // before any of them takes memory
  if (device.kind == DeviceKind::cuda) return bytes;
  return std::ranges::min(found) / std::ranges::count(hosts, host_name());
}

int64_t free_memory_on(Device device, const Config& config, RankGroup& ranks) {
  const MemorySummary memory = backend_of(device).memory_summary();
  int64_t bytes = free_for_rank(device, memory, ranks);
  const int64_t limit = memory_limit(config.runtime.memory.limit, memory.total).value_or(0);
  if (limit > 0) bytes = std::min(bytes, limit);
  if (config.data.cache == CacheKind::device && device.kind == DeviceKind::cuda) {
    bytes -= std::min(bytes / 2, static_cast<int64_t>(config.data.cache_limit_mib * 1024 * 1024));
  }
  return bytes;
}

// The configuration of a candidate: the search sets the limits; nothing is timed or cached.
Config candidate_config(Config config, int64_t batch) {
  config.train.batch_size = batch;
  config.runtime.memory = {};
  config.deterministic = true;
  config.data.cache = CacheKind::none;
  config.data.prefetch = 1;
  config.train.drop_last = false;
  config.features = FeatureKind::computed;
  return config;
}

// The batch of an epoch that needs most memory. Images' are all alike; those of texts and rows are
// as long as their bucket's sequences.
Batch largest_batch(const Config& config, BatchSource& source, std::string_view key) {
  const bool alike = config.data.kind != DataKind::text && config.data.kind != DataKind::rows;
  source.start_epoch(0);
  std::optional<Batch> largest = source.next();
  if (!largest) fail(ErrorKind::data, "{}: no batch could be read", key);
  while (!alike) {
    std::optional<Batch> batch = source.next();
    if (!batch) break;
    if (batch->inputs.count() > largest->inputs.count()) largest = std::move(batch);
  }
  return std::move(*largest);
}

bool captures(const Config& config, Device device) {
  return device.kind == DeviceKind::cuda && config.runtime.graph;
}

// An epoch's last batch, where it is smaller. Captured steps keep their memory while it is trained
// operator by operator; elsewhere it needs less than the others.
std::optional<Batch> last_batch(const Config& config, Device device, int64_t examples) {
  const int64_t size = config.train.batch_size;
  const bool few = config.train.overfit_batches > 0;  // whole batches, where there are as many
  const int64_t rest =
      (few ? std::min(examples, config.train.overfit_batches * size) : examples) % size;
  const bool all_alike = config.train.drop_last || config.data.kind == DataKind::language;
  if (rest == 0 || all_alike || !captures(config, device)) return std::nullopt;
  Experiment experiment(candidate_config(config, rest), StartFrom::checkpoint);
  return largest_batch(experiment.config, *experiment.train, "data.train");
}

void run_once(TrainStep& step, const Batch& batch) {
  step.begin({});
  step.run(batch, {.number = 1, .learning_rate = 0, .last_of_epoch = true});
}

// Until further steps need no more memory.
void train_some(TrainStep& step, const Batch& batch) {
  for (int64_t left = step.warm_up_batches(); left > 0; --left) run_once(step, batch);
  step.read();
}

// One batch several times.
class Repeated final : public BatchSource {
 public:
  Repeated(Batch batch, int64_t times) : batch_(std::move(batch)), times_(times) {}
  int64_t batches() const override { return times_; }
  void start_epoch(int64_t, int64_t from) override { next_ = from; }
  std::optional<Batch> next() override {
    return next_++ < times_ ? std::optional(batch_) : std::nullopt;
  }
  LoaderStats stats() const override { return {}; }

 private:
  Batch batch_;
  int64_t times_;
  int64_t next_ = 0;
};

// Up to where the most outputs wait to be read. The captured steps' memory is taken meanwhile.
void validate_some(Experiment& experiment) {
  Repeated source(largest_batch(experiment.config, *experiment.val, "data.val"),
                  batches_read_at_once(experiment.device));
  const AverageScope averaged(experiment.average.get());
  evaluate(*experiment.network, *experiment.objective, source);
}

// Needs no device, so that what is wrong with data and layers is told before one is there. Examples
// that train.overfit_batches leaves out count, as it keeps more of them for larger batches.
struct Counted {
  int64_t examples = 0;
  Model model;
  RunBatches batches;  // of the run; its size is not known yet
};
Counted check_and_count_examples(Config config) {
  if (config.train.overfit_batches > 0) config.train.overfit_batches = int64_t{1} << 40;
  const RunData data = open_data(config);
  Counted counted{.examples = data.train_size,
                  .model = build_model(config.model, training_build(config, data)),
                  .batches = {.examples = data.train_size}};
  check_takes_both_sizes(counted.model, config.data);
  freeze_layers(config, counted.model);
  if (config.data.kind != DataKind::language) return counted;
  // A batch cuts both texts into as many rows, and more rows than sequences only shorten these.
  counted.examples =
      std::min(std::max<int64_t>(1, data.train_size / config.data.text.steps), data.val_size);
  return counted;
}

// The largest one up to `found` whose batches, the last one of an epoch included, suit batch norms.
int64_t suited_to_norms(const Config& config, Counted counted, int64_t found, int world) {
  if (config.data.kind == DataKind::language || config.train.overfit_batches > 0) return found;
  counted.batches.batch_size = found;
  counted.batches.drop_last = config.train.drop_last;
  counted.batches.world = world;
  counted.batches.sync_norms = config.train.sync_batch_norm;
  return accepted_batch_size(counted.model, counted.batches);
}

// By running steps with batches of up to `most`.
int64_t largest_that_fits(const Config& config, Device device, int64_t examples, int64_t most) {
  const auto fits = [&](int64_t batch) {
    try {
      Config tried = config;
      tried.train.batch_size = batch;
      const std::optional<Batch> last = last_batch(tried, device, examples);
      Experiment experiment(candidate_config(config, batch), StartFrom::checkpoint);
      experiment.unfreeze();
      TrainStep step(experiment);
      // Stays while validation is tried, for the inputs of an epoch's last, smaller batch, which a
      // GPU captures as well where epochs are short.
      std::optional<Batch> trained;
      const auto train = [&] {
        trained = largest_batch(experiment.config, *experiment.train, "data.train");
        train_some(step, *trained);
        if (!last) return;
        run_once(step, *last);
        step.read();
      };
      batch == 1 ? with_memory_advice(experiment, train) : train();
      validate_some(experiment);
    } catch (const OutOfMemory&) {
      backend_of(device).empty_cache();
      if (batch == 1) throw;
      return false;
    }
    backend_of(device).empty_cache();
    return true;
  };
  int64_t largest = 0, too_large = std::min(first_batch, most);
  if (fits(too_large)) {
    largest = too_large;
    if (largest == most) return most;
    for (too_large = most + 1; largest < most;) {
      const int64_t next = std::min(2 * largest, most);
      if (!fits(next)) {
        too_large = next;
        break;
      }
      largest = next;
    }
  } else if (fits(1)) {
    largest = 1;
  }
  const auto close = [&] { return too_large - largest <= std::max<int64_t>(1, largest / 16); };
  while (!close()) {
    int64_t middle = largest + (too_large - largest) / 2;
    if (largest >= 8) middle = middle / 8 * 8;
    if (middle <= largest) break;
    (fits(middle) ? largest : too_large) = middle;
  }
  return largest;
}

}  // namespace

int64_t find_batch_size(const Config& given, RankGroup& ranks) {
  Config config = resolve_config(given);
  config.device = device_of_rank(config.device, ranks);
  const Counted counted = check_and_count_examples(candidate_config(config, 1));
  const int64_t examples = counted.examples;
  int64_t most =
      std::clamp<int64_t>(examples / ranks.world(), 1,
                          std::min(largest_auto_batch, largest_batch_size / ranks.world()));
  if (most > first_batch) most = most / 8 * 8;
  const Device device = choose_device(config.device).device;
  const MemoryReserve reserve(device, free_memory_on(device, config, ranks),
                              config.runtime.memory.mode);
  const int64_t found =
      std::ranges::min(ranks.gather(largest_that_fits(config, device, examples, most)));
  return suited_to_norms(config, counted, found * ranks.world(), ranks.world());
}

std::string settle_batch_size(Config& config, RankGroup& ranks) {
  TrainSettings& train = config.train;
  if (train.batch_size_per_gpu > 0) {
    const int64_t each = std::exchange(train.batch_size_per_gpu, 0);
    train.batch_size = each * ranks.world();
    if (train.batch_size > largest_batch_size) {
      fail(ErrorKind::usage,
           "train.batch_size_per_gpu: {} on each of {} ranks are more than a batch of {}.", each,
           ranks.world(), largest_batch_size);
    }
    return fmt::format("train.batch_size_per_gpu: {} on {} rank{} is train.batch_size {}", each,
                       ranks.world(), ranks.world() == 1 ? "" : "s", train.batch_size);
  }
  if (train.batch_size != 0) return "";
  train.batch_size = find_batch_size(config, ranks);
  return fmt::format("train.batch_size: auto is {}", train.batch_size);
}

int64_t find_batch_size(const Config& config) {
  RankGroup one;
  return find_batch_size(config, one);
}

std::string settle_batch_size(Config& config) {
  RankGroup one;
  return settle_batch_size(config, one);
}

}  // namespace whisker
