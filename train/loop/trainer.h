// The training loop: batches in, weights out. Reports to an observer. Its progress is a TrainState,
// which a checkpoint stores and a resume restores bit for bit.
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_folder.h"
#include "train/experiment.h"
#include "train/loop/events.h"
#include "train/loop/failed_step.h"
#include "train/loop/find_non_finite.h"
#include "train/loop/histogram_log.h"
#include "train/loop/metrics_log.h"
#include "train/loop/pace.h"
#include "train/loop/step_trace.h"
#include "train/loop/train_step.h"
#include "train/metrics/metrics.h"
#include "train/metrics/validation_examples.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class StopReason : uint8_t {
  finished,
  early_stopping,
  time_budget,
  signal,
  planned,   ///< trained what fits into train.time_budget_minutes
  repeated,  ///< as far as the run that it repeats
};

struct TrainResult {
  StopReason reason = StopReason::finished;
  int signal = 0;      ///< that stopped it, in any rank
  int64_t epochs = 0;  ///< finished ones
  int64_t steps = 0;
  double best_metric = 0;
  std::string_view best_figure = {};  ///< name of best_metric: "accuracy"
  int64_t best_epoch = -1;            ///< -1: none was validated
  double seconds = 0;
  std::shared_ptr<const Metrics> validation = {};  ///< of the last validation
  int64_t validation_epoch = -1;                   ///< its epoch
};

struct BestWeights;

class Trainer {
 public:
  /// `stop` is polled after every step (of several ranks on GPUs, after every train.log_every
  /// steps) and every validation batch; a value other than 0, in any rank, requests a checkpoint
  /// and the end of training. Only the rank whose `folder` writes() writes anything.
  Trainer(Experiment& experiment, RunFolder& folder, TrainObserver& observer,
          const std::atomic<int>& stop, TrainStepOptions options = {});

  /// Continues from the run folder's last checkpoint. Throws checkpoint, without changes, when it
  /// is missing or damaged, or data or configuration differ from the run's; and when the best
  /// weights are not this run's.
  void resume();
  /// Whether nothing is left to train, as after resume() of a finished run.
  bool is_done() const;
  /// Trains as the run whose checkpoint holds `recorded`: with its timed algorithms and its plan,
  /// whatever the clock says, and as far as that one came. See check_repeatable().
  void repeat(const TrainState& recorded);
  TrainResult run();
  /// After each epoch calls `observe`, which throws nothing, on another thread, when the epoch's
  /// weights are on disk; on the rank that writes the run folder.
  void after_epochs(std::function<void()> observe) { after_epoch_ = std::move(observe); }

 private:
  bool run_epoch();
  void unfreeze();
  std::string nothing_to_do() const;
  std::string follow_changes(const TrainState& saved);
  bool reached_plan() const;
  bool late() const;
  double between_epochs(double batch_seconds) const;
  int64_t steps_that_fit() const;
  int64_t first_plan() const;
  void plan(int64_t end);
  void correct_plan();
  void add_time_left(StepEvent& event) const;
  void prepare(const Preparing& preparing);
  std::optional<Batch> next_batch();
  bool run_batch(const Batch& batch);
  bool records_histograms(const BatchPlace& place);
  void write_histograms(const HistogramRow& row);
  void write_trace();
  void read_results(const Batch* at_hand = nullptr);
  std::shared_ptr<const Metrics> validate();
  void hear_ranks();
  void measure_average();
  bool take_best(std::shared_ptr<const Metrics> metrics);
  void count_stalled(double metric);
  bool stalled() const;
  void report(EpochEvent event);
  void tell_notes();
  bool finish_epoch();
  void validate_at_stop();
  void validate_last_epoch();
  void check_best();
  std::string check_origin(const BestWeights& found) const;
  bool better(double metric, double than, double margin) const;
  int64_t batches_seen() const { return state_.epoch * batches_ + state_.batch; }
  int64_t batches_tracked() const { return state_.initial_batches + batches_seen(); }
  void save_last();
  void check_finite(const Snapshot& snapshot);
  [[noreturn]] void diverged(int64_t batch, std::string_view what, const Culprit& culprit);
  void keep_step(const FailedStep& step, const Culprit& culprit);
  double now() const;               // seconds of this run, those before a resume included
  StepTotals epoch_totals() const;  // so far
  StepTotals unlogged_totals() const;
  std::optional<double> share_correct(const StepTotals& totals) const;
  StepEvent step_event() const;
  void log_step(const StepEvent& event);
  void reset_totals();

  Experiment& experiment_;
  RunFolder& folder_;
  TrainObserver& observer_;
  const std::atomic<int>& stop_;
  MetricsLog log_;
  CheckpointWriter writer_;
  TrainStep step_;
  StepProfile profile_;
  TrainState state_;
  int64_t epoch_ahead_ = -1;  // begun by the training loader before it is due
  int64_t batches_ = 0;       // per epoch
  std::optional<double> gradient_norm_ = {};
  double waited_ = 0;     // for other ranks' gradients in this epoch
  double last_wait_ = 0;  // in the last step of which it is known
  std::optional<RankTimes> rank_times_;
  std::optional<StopReason> stop_reason_;
  int signal_ = 0;               // the first to any rank, once all know of it
  bool late_ = false;            // the time is up by rank 0's clock, likewise
  int64_t fits_ = 0;             // steps of the run, in the first plan of the schedule's part
  bool plans_ = false;           // the schedule follows the time budget
  bool planned_ = false;         // the schedule's part, since it or a resume began
  double planned_at_ = 0;        // by now()
  int64_t repeated_steps_ = -1;  // of the run that this one repeats; -1: none
  Pace pace_;
  bool steady_ = false;       // see EpochEvent
  int64_t epochs_run_ = 0;    // since the start or the resume
  double prepared_ = 0;       // seconds of Preparing since the epoch's last batch
  double prepare_start_ = 0;  // by now()
  bool said_unrecorded_ = false;
  bool gave_up_histograms_ = false;  // they could not be written
  bool validate_first_ = false;      // no epoch is left to write the best weights again
  std::shared_ptr<const Metrics> validation_;
  std::vector<std::string> val_paths_;        // in the order of the data
  std::vector<uint64_t> val_hashes_;          // the same
  std::optional<ExampleCollector> examples_;  // of the last validation; none of language models
  int64_t validated_epoch_ = -1;
  Figure best_figure_;  // what makes the best weights; its value is nothing
  std::chrono::steady_clock::time_point start_;
  double epoch_start_ = 0;      // of what the next epoch event counts, by now()
  double batches_start_ = 0;    // of the epoch's batches, by now()
  int64_t epoch_examples_ = 0;  // since the epoch (or the resume) began
  int64_t epoch_batches_ = 0;   // likewise
  StageTimes times_;
  std::function<void()> after_epoch_;
};

}  // namespace whisker
