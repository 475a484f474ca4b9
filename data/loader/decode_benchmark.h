// Finds the fraction of a run's JPEG files that the device should decode; the CPU decodes the rest.
// Times the run's own first batches with each candidate fraction, because decoding on the device
// slows the network down, and only training itself shows by how much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct DecodeBenchmarkOptions {
  /// Candidates, ascending. The first is the baseline.
  std::vector<double> shares = {0, 0.25, 0.5, 0.75, 1};
  int64_t warm_up = 24;   ///< batches before timing begins: algorithms are chosen, steps captured
  int64_t settle = 12;    ///< batches skipped after each change: they were prepared before it
  int64_t measured = 24;  ///< batches timed per candidate
};

class DecodeBenchmark {
 public:
  explicit DecodeBenchmark(DecodeBenchmarkOptions options);

  /// One delivered batch: `seconds` since the batch before, `waited` of them in the loader.
  struct Delivery {
    int64_t images = 0;
    double seconds = 0;
    double waited = 0;
  };
  void delivered(const Delivery& delivery);

  /// The fraction to use for batches that begin now, in [0, 1].
  double share() const { return share_; }
  bool finished() const { return finished_; }
  /// The result with its measurements, in one sentence. Call once finished.
  std::string verdict() const;

 private:
  DecodeBenchmarkOptions options_;
  double share_;
  int64_t to_skip_;
  int64_t counted_ = 0;  // batches
  double images_ = 0, seconds_ = 0, waited_ = 0;
  std::vector<double> rates_;  // images per second, by share
  double first_wait_ = 0;      // fraction of the time
  bool finished_ = false;
};

}  // namespace whisker
