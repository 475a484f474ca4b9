// Trains as one rank of a run, in this process, and writes what it has after every step:
//   rank_steps CONFIG OUT [overrides]      OUT.RANK: lines "STEP HASH_OF_WEIGHTS INDICES"
// With NAN_RANK in the environment, that rank's inputs of batch 5 are NaN; with HANG_RANK it never
// comes past batch 5; with SLOW_RANK its work there takes seven seconds; with SHORT_RANK its epoch
// ends before.
#include "apps/ranks/run_ranks.h"
#include "core/work_progress.h"
#include "train/loop/rank_sums.h"
#include "train/loop/trainer.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

namespace {

using namespace whisker;

/// Whether the environment names `rank` there.
bool is_named(const char* variable, int rank) {
  const char* const named = std::getenv(variable);
  return named && std::stoi(named) == rank;
}

/// Notes the indices of the batches that a source delivers, and spoils one.
class Noted final : public BatchSource {
 public:
  Noted(std::unique_ptr<BatchSource> source, int rank) : source_(std::move(source)), rank_(rank) {}
  int64_t batches() const override { return source_->batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    source_->start_epoch(epoch, first_batch);
  }
  std::optional<Batch> next() override {
    std::optional<Batch> batch = source_->next();
    if (batch) last = batch->indices;
    constexpr int64_t spoiled = 5;
    if (++delivered_ != spoiled) return batch;
    if (is_named("SHORT_RANK", rank_)) return std::nullopt;
    spoil(*batch);
    return batch;
  }
  LoaderStats stats() const override { return source_->stats(); }
  const std::vector<BadSample>& bad_samples() const override { return source_->bad_samples(); }

  std::vector<int64_t> last;

 private:
  void spoil(const Batch& batch) const {
    if (is_named("NAN_RANK", rank_)) {
      batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    if (is_named("HANG_RANK", rank_)) std::this_thread::sleep_for(std::chrono::hours(1));
    for (int second = 0; second < 7 && is_named("SLOW_RANK", rank_); ++second) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      count_progress();
    }
  }

  std::unique_ptr<BatchSource> source_;
  int rank_;
  int64_t delivered_ = 0;
};

class Writer final : public TrainObserver {
 public:
  Writer(Experiment& experiment, const Noted& source, const std::string& path)
      : experiment_(experiment), source_(source), out_(path) {}
  void on_step(const StepEvent& event) override {
    out_ << fmt::format("{} {:016x}", event.step, hash_of_weights(experiment_));
    for (const int64_t index : source_.last) out_ << ' ' << index;
    out_ << std::endl;
  }

 private:
  Experiment& experiment_;
  const Noted& source_;
  std::ofstream out_;
};

void train(int argc, char** argv, const std::shared_ptr<RankGroup>& ranks) {
  const std::vector<std::string> overrides(argv + 3, argv + argc);
  Experiment experiment(read_config(argv[1], overrides), StartFrom::initial_weights, ranks);
  auto noted = std::make_unique<Noted>(std::move(experiment.train), ranks->rank());
  Writer writer(experiment, *noted, fmt::format("{}.{}", argv[2], ranks->rank()));
  experiment.train = std::move(noted);
  std::optional<RunFolder> own;
  if (ranks->leads()) own = RunFolder::create(experiment.config.runs, experiment.config.name);
  const std::string path = ranks->from_leader(own ? own->path().string() : "");
  RunFolder folder = own ? std::move(*own) : RunFolder::of_rank_0(path);
  const std::atomic<int> stop = 0;
  Trainer(experiment, folder, writer, stop).run();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    RunRanks ranks;
    return ranks.run([&] {
      train(argc, argv, ranks.group());
      return 0;
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
