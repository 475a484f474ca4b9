// The training loop: batches in, weights out. What it does is reported to an observer; where it
// stands is a TrainState, which a checkpoint stores and a resume restores bit for bit.
#pragma once

#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/stopwatch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// One logged step.
struct StepEvent {
  int64_t epoch = 0;    ///< from 0
  int64_t batch = 0;    ///< of the epoch, from 1
  int64_t batches = 0;  ///< in an epoch
  int64_t step = 0;     ///< optimizer steps so far
  double loss = 0;      ///< mean over the epoch so far
  double accuracy = 0;  ///< likewise
  double learning_rate = 0;
  double gradient_norm = 0;
  double images_per_s = 0;  ///< over the epoch so far
  double wait_share = 0;    ///< of the wall time spent waiting for data
  double seconds_left = 0;  ///< of the epoch, at this speed
};

/// One finished epoch.
struct EpochEvent {
  int64_t epoch = 0;
  int64_t epochs = 0;
  double train_loss = 0, train_accuracy = 0;
  std::optional<double> val_loss = {}, val_accuracy = {};
  bool best = false;
  double seconds = 0;
  StageTimes times = {};  ///< where those seconds went
};

/// Told what happens; the program prints, tests count.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepEvent&) {}  ///< every step; cheap ones only look at the clock
  virtual void on_epoch(const EpochEvent&) {}
  virtual void on_message(const std::string&) {}
};

enum class StopReason : uint8_t { finished, early_stopping, time_budget, signal };

struct TrainResult {
  StopReason reason = StopReason::finished;
  int64_t epochs = 0;  ///< finished ones
  int64_t steps = 0;
  double best_metric = 0;
  int64_t best_epoch = -1;  ///< -1: none was validated
  double seconds = 0;
  std::optional<ClassificationMetrics> validation = {};  ///< of the last validation
};

class Trainer {
 public:
  /// `stop` is polled after every step and every validation batch; a value other than 0 asks for a
  /// checkpoint and an end.
  Trainer(Experiment& experiment, RunFolder& folder, TrainObserver& observer,
          const std::atomic<int>& stop);

  /// Continues from the run folder's last checkpoint. Throws checkpoint, and has changed nothing,
  /// when there is none, when it is damaged, or when data or configuration are not the run's.
  void resume();
  TrainResult run();

 private:
  bool run_epoch();
  void run_step(const Batch& batch, bool last_of_epoch);
  Pass pass() const;
  ClassificationMetrics validate();
  bool take_best(const ClassificationMetrics& metrics);
  void count_stalled(double metric);
  bool finish_epoch();
  void validate_at_stop();
  void log_step(const StepEvent& event);
  void log_epoch(const EpochEvent& event);
  double metric_of(const ClassificationMetrics& metrics) const;
  bool better(double metric, double than, double margin) const;
  int64_t batches_seen() const { return state_.epoch * batches_ + state_.batch; }
  void write_metrics(const JsonWriter& json);
  void save_last();
  void check_finite(const Snapshot& snapshot);
  [[noreturn]] void diverged(const std::string& what, const std::string& culprit);
  double now() const;  // seconds of this run, those before a resume included
  StepEvent step_event(int64_t batch) const;

  Experiment& experiment_;
  RunFolder& folder_;
  TrainObserver& observer_;
  const std::atomic<int>& stop_;
  CheckpointWriter writer_;
  TrainState state_;
  int64_t batches_ = 0;          // per epoch
  int64_t pending_batches_ = 0;  // accumulated since the last optimizer step
  double gradient_norm_ = 0;
  std::optional<StopReason> stop_reason_;
  std::optional<ClassificationMetrics> validation_;
  int64_t validated_step_ = -1;
  std::chrono::steady_clock::time_point start_;
  double epoch_start_ = 0;
  int64_t epoch_pictures_ = 0;  // since the epoch (or the resume) began
  StageTimes times_;
};

}  // namespace whisker
