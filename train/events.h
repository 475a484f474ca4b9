// What a training run tells whoever watches it.
#pragma once

#include "train/metrics.h"
#include "train/stopwatch.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// One batch. Loss, accuracy and norm are those of the epoch's last reading, none before its first:
/// on a GPU every train.log_every steps.
struct StepEvent {
  int64_t epoch = 0;                    ///< from 0
  int64_t batch = 0;                    ///< of the epoch, from 1
  int64_t batches = 0;                  ///< in an epoch
  int64_t step = 0;                     ///< optimizer steps so far
  std::optional<double> loss = {};      ///< mean over the epoch so far
  std::optional<double> accuracy = {};  ///< likewise; none of a regression
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< nor any of an f16 step skipped for its overflow
  double examples_per_s = 0;                 ///< over the epoch so far
  double wait_share = 0;                     ///< of the wall time spent waiting for data
  double seconds_left = 0;                   ///< of the epoch, at this speed
};

/// One finished epoch.
struct EpochEvent {
  int64_t epoch = 0;
  int64_t epochs = 0;
  double train_loss = 0;
  std::optional<double> train_accuracy = {};  ///< none of a regression
  std::optional<double> val_loss = {};        ///< set when the epoch was validated
  std::vector<Figure> val_figures = {};       ///< of the validation, the task's own
  bool best = false;
  double seconds = 0;     ///< since the last epoch's event, so with the saving that followed it
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

}  // namespace whisker
