// Events that a training run reports to an observer, and its wall time by stage.
#pragma once

#include "data/batch_source.h"
#include "train/metrics/metrics.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class Stage : uint8_t { data_wait, step, validation, checkpoint, logging };
inline constexpr std::array<std::string_view, 5> stage_names = {"data wait", "step", "validation",
                                                                "checkpoint", "logging"};

struct StageTimes {
  std::array<double, 5> seconds{};
  double& operator[](Stage stage) { return seconds[static_cast<size_t>(stage)]; }
  double operator[](Stage stage) const { return seconds[static_cast<size_t>(stage)]; }
  double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
};

/// Adds its lifetime to one stage.
class StageTimer {
 public:
  StageTimer(StageTimes& times, Stage stage) : times_(times), stage_(stage) {}
  ~StageTimer() {
    times_[stage_] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  StageTimes& times_;
  Stage stage_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// How the ranks of a run spent the epoch so far.
struct RankTimes {
  /// Fraction of the wall time that the rank which waits least waits for the sum of gradients:
  /// communication that backward did not hide.
  double communication = 0;
  int slowest = 0;    ///< the rank that takes longest beside that
  double excess = 0;  ///< by which fraction it takes longer than the others on average
};

/// One batch. Losses, accuracies and norm cover the results read from the device so far (on a GPU
/// every train.log_every steps); those of the epoch, and the norm, are unset before the first
/// reading.
struct StepEvent {
  int64_t epoch = 0;                ///< from 0
  int64_t batch = 0;                ///< of the epoch, from 1
  int64_t batches = 0;              ///< in an epoch
  int64_t step = 0;                 ///< optimizer steps so far
  std::optional<double> loss = {};  ///< mean since the last logged step; unset when nothing is new
  std::optional<double> accuracy = {};        ///< likewise; unset for a regression
  std::optional<double> epoch_loss = {};      ///< mean over the epoch so far
  std::optional<double> epoch_accuracy = {};  ///< likewise; unset for a regression
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< also unset for an f16 step that overflowed
  double examples_per_s = 0;                 ///< over the epoch so far
  double wait_share = 0;                     ///< fraction of the wall time spent waiting for data
  int64_t epochs = 0;                        ///< of the run, as planned so far
  /// Seconds left of the epoch and of the run, by steady batches; unset before there are any, and
  /// of the run before all layers are trained.
  std::optional<double> epoch_seconds_left = {}, run_seconds_left = {};
  std::optional<RankTimes> ranks = {};  ///< unset for one rank, and until it is measured
};

/// One finished epoch.
struct EpochEvent {
  int64_t epoch = 0;
  int64_t epochs = 0;
  double learning_rate = 0;  ///< of the last step
  double train_loss = 0;
  std::optional<double> train_accuracy = {};  ///< unset for a regression
  std::optional<double> val_loss = {};        ///< set when the epoch was validated
  std::vector<Figure> val_figures = {};       ///< the task's metrics from validation
  bool best = false;
  std::string best_by = {};  ///< label of the figure that selects the best weights
  /// Its times are those of later epochs, too: not of the first one of a run or a resume, nor of
  /// one on cached features, nor the first one in which other layers are trained.
  bool steady = false;
  double seconds = 0;     ///< since the last epoch's event, including the checkpoint after it
  StageTimes times = {};  ///< those seconds by stage
};

/// Receives events; the program prints them, tests count them.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepEvent&) {}  ///< called every step: return quickly
  virtual void on_epoch(const EpochEvent&) {}
  virtual void on_message(const std::string&) {}
  /// Before a batch that takes long: "computing features", so many of so many.
  virtual void on_preparing(const Preparing&) {}
};

}  // namespace whisker
