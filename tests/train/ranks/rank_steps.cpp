// Trains as one rank of a run, in this process, and writes what it has after every step:
//   rank_steps CONFIG OUT [overrides]      OUT.RANK: lines "STEP HASH_OF_WEIGHTS INDICES"
#include "train/loop/rank_sums.h"
#include "train/loop/trainer.h"

#include <cstdio>
#include <fstream>

namespace {

using namespace whisker;

/// Notes the indices of the batches that a source delivers.
class Noted final : public BatchSource {
 public:
  explicit Noted(std::unique_ptr<BatchSource> source) : source_(std::move(source)) {}
  int64_t batches() const override { return source_->batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    source_->start_epoch(epoch, first_batch);
  }
  std::optional<Batch> next() override {
    std::optional<Batch> batch = source_->next();
    if (batch) last = batch->indices;
    return batch;
  }
  LoaderStats stats() const override { return source_->stats(); }
  const std::vector<BadSample>& bad_samples() const override { return source_->bad_samples(); }

  std::vector<int64_t> last;

 private:
  std::unique_ptr<BatchSource> source_;
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

void train(int argc, char** argv) {
  const std::vector<std::string> overrides(argv + 3, argv + argc);
  const std::shared_ptr<RankGroup> ranks = join_ranks(rank_environment());
  Experiment experiment(read_config(argv[1], overrides), StartFrom::initial_weights, ranks);
  auto noted = std::make_unique<Noted>(std::move(experiment.train));
  Writer writer(experiment, *noted, fmt::format("{}.{}", argv[2], ranks->rank()));
  experiment.train = std::move(noted);
  std::optional<RunFolder> own;
  if (ranks->leads()) own = RunFolder::create(experiment.config.runs, experiment.config.name);
  const std::string path = ranks->from_leader(own ? own->path().string() : "");
  RunFolder folder = own ? std::move(*own) : RunFolder::of_rank_0(path);
  const std::atomic<int> stop = 0;
  Trainer(experiment, folder, writer, stop).run();
  ranks->barrier();
  ranks->leave();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
