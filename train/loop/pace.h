// The speed of a run, of steady batches only: by it the time left is told, and the schedule is laid
// over a time budget. The first batches of a run and of a resume are not steady (algorithms are
// timed, steps captured, queues filled), nor are those after other layers are trained.
#pragma once

#include <cstdint>
#include <optional>

namespace whisker {

class Pace {
 public:
  /// `warm_up`: number of batches that are not steady.
  explicit Pace(int64_t warm_up) : warm_up_(warm_up), unsteady_(warm_up) {}

  /// From now on batches take another time, after a warm-up.
  void restart();
  /// An epoch's batches begin at `now`, in seconds by the run's clock.
  void begin_epoch(double now);
  /// A batch has run.
  void count_batch() { unsteady_ > 0 ? --unsteady_ : ++batches_; }
  /// The device has finished all batches so far, at `now`.
  void mark(double now);
  /// What lies between two epochs took so long: validation, if there was one, and checkpoint.
  void add_between_epochs(double seconds);

  /// Mean of this epoch's batches so far, or, of fewer than ten, of the epochs before, the last
  /// ones above all; unset before any is steady.
  std::optional<double> batch_seconds() const;
  /// Mean of what lay between epochs, the first time alone until there is another; unset before.
  std::optional<double> between_epochs() const;
  /// Whether at least 20 batches were steady, and `seconds` passed since the first one.
  bool known_after(double seconds) const;

 private:
  struct Measured {
    double batches = 0, seconds = 0;
  };

  int64_t warm_up_;
  int64_t unsteady_;                           // batches left of the warm-up
  int64_t batches_ = 0;                        // steady ones
  int64_t first_ = 0;                          // of them, at begin_
  std::optional<double> begin_, first_begin_;  // of the epoch's ones and of all
  double last_mark_ = 0;
  Measured epoch_, before_;
  int64_t ends_ = 0;  // of epochs
  double between_ = 0;
};

}  // namespace whisker
