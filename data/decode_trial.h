// Who should decode a run's JPEG files: the CPU's threads, a device, or both. What counts is how
// fast batches are trained on, so that is what is timed: the run's own first batches, at one share
// after the other. A device that decodes takes time from the network, which only this shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct TrialOptions {
  /// Ascending; the first is what the others must beat.
  std::vector<double> shares = {0, 0.25, 0.5, 0.75, 1};
  int64_t warm_up = 24;   ///< batches before anything counts: algorithms are chosen, steps captured
  int64_t settle = 12;    ///< batches after each change: those prepared before it, and the device's
  int64_t measured = 24;  ///< batches that count, at each share
  double least_wait = 0.05;  ///< of the time: with less waiting for data little can be gained
  double least_gain = 0.03;  ///< by which another share must be faster than the first
};

class DecodeTrial {
 public:
  using Clock = std::chrono::steady_clock;
  explicit DecodeTrial(TrialOptions options);

  /// One batch was delivered, the last one `seconds` before; the loader made the caller wait
  /// `waited` of them.
  struct Delivery {
    int64_t pictures = 0;
    double seconds = 0;
    double waited = 0;
    bool first_of_epoch = false;  ///< something else lies before it: its times do not count
  };
  /// Whether share() changed.
  bool delivered(const Delivery& delivery);

  /// What batches that are begun now should have.
  double share() const { return share_; }
  bool finished() const { return finished_; }
  /// What was found, with its figures, in a sentence; once finished.
  std::string verdict() const;

 private:
  void next_share();
  void choose();

  TrialOptions options_;
  size_t number_ = 0;  // of the share being timed
  double share_;
  int64_t to_settle_;
  int64_t counted_ = 0;  // batches
  double pictures_ = 0, seconds_ = 0, waited_ = 0;
  std::vector<double> rates_;  // pictures per second, by share
  double first_wait_ = 0;      // share of the time
  bool finished_ = false;
};

}  // namespace whisker
