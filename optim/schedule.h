// Learning rate schedules: functions of the step and of what was planned (plateau also keeps state
// of its own), each with a linear warm-up. They are torch.optim.lr_scheduler's, with lengths given
// in epochs.
#pragma once

#include <cstdint>
#include <vector>

namespace whisker {

enum class ScheduleKind : uint8_t {
  constant,
  step,         ///< times gamma every step_size epochs (StepLR)
  multi_step,   ///< times gamma at each milestone (MultiStepLR)
  exponential,  ///< times gamma each epoch (ExponentialLR)
  cosine,       ///< down to minimum along half a cosine (Loshchilov and Hutter 2017)
  one_cycle,    ///< up and down along cosines (Smith and Topin 2018; OneCycleLR)
  plateau,      ///< times gamma when the metric stalls (ReduceLROnPlateau)
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double gamma = 0.1;
  double step_size = 10;                ///< epochs
  std::vector<double> milestones = {};  ///< epochs, ascending
  double minimum = 0;                   ///< cosine, plateau: lowest rate
  double peak_at = 0.3;                 ///< one_cycle: fraction of the run spent rising
  double start_divisor = 25;            ///< one_cycle: first rate is the base over this
  double final_divisor = 1e4;           ///< one_cycle: last rate is the first over this
  int patience = 10;                    ///< plateau: epochs without improvement that are forgiven
  int cooldown = 0;                     ///< plateau: epochs after a reduction that do not count
  double threshold = 1e-4;              ///< plateau: smallest relative improvement that counts
  bool maximise = false;                ///< plateau: the metric is better when larger
  double warmup = 0;                    ///< epochs
  double warmup_start = 0.01;  ///< first rate of the warm-up, as a fraction of the schedule's
  int64_t restart = 0;         ///< epochs after which it restarts over those that remain; 0: never
  double restart_factor = 1;   ///< of the rate from there on
};

class Schedule {
 public:
  /// `total_steps` includes the warm-up; one_cycle and cosine end there, and at a restart before
  /// it.
  Schedule(ScheduleOptions options, double base_rate, int64_t total_steps, int64_t steps_per_epoch);

  /// The rate for step `step` (from 0).
  double at(int64_t step) const;
  /// Number of steps in `epochs` epochs.
  int64_t steps(int64_t epochs) const { return epochs * steps_per_epoch_; }
  /// This schedule over another number of epochs.
  Schedule over(int64_t epochs, int64_t restart) const;
  /// Whether its shape depends on the number of steps.
  bool has_end() const {
    return options_.kind == ScheduleKind::cosine || options_.kind == ScheduleKind::one_cycle;
  }
  /// From `step` on, what is left of the shape (of its last part, behind a restart) is laid over
  /// the steps before `end`. The rate goes on from where it is.
  void plan(int64_t step, int64_t end);
  /// Number of steps in all: as planned last, else those of the epochs.
  int64_t end() const;
  /// `steps` in epochs.
  double epochs(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(steps_per_epoch_);
  }
  /// Resets plateau where the schedule restarts.
  void begin_epoch(int64_t epoch);
  /// Plateau only: the metric at the end of an epoch.
  void observe(double metric);

  /// What plan() was told at `step`: the run has so many epochs.
  struct PlannedEpochs {
    int64_t step = 0;
    double epochs = 0;
  };
  /// State of plateau, and plans in the order of their steps; part of a checkpoint.
  struct State {
    double factor = 1;
    double best = 0;
    bool any = false;
    int stalled = 0;
    int cooling = 0;
    std::vector<PlannedEpochs> planned = {};
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  int64_t steps_of(const PlannedEpochs& planned) const;
  double position(int64_t step, int64_t begin, int64_t length) const;
  double after_warmup(double step, int64_t length) const;

  ScheduleOptions options_;
  double base_;
  int64_t total_;
  int64_t steps_per_epoch_;
  int64_t warmup_steps_;
  State state_;
};

}  // namespace whisker
