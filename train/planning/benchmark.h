// Measures how fast a configuration trains or classifies on this machine, relative to the machine's
// limits. One batch is reused, so that only computation is measured.
#pragma once

#include "layers/analysis/step_work.h"
#include "train/config/config.h"
#include "train/loop/step_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct BenchmarkOptions {
  bool inference = false;  ///< forward passes, each with its result copied to the host
  int64_t steps = 50;      ///< measured steps, after a warm-up
  bool layers = true;      ///< traces three more training steps
};

struct BenchmarkResult {
  bool inference = false;
  std::string device, precision;
  int64_t batch = 0, steps = 0;
  bool captured = false;                  ///< whether steps were replays of a captured one
  std::vector<double> milliseconds = {};  ///< of each step, ascending
  int64_t peak_bytes = 0;                 ///< MemoryStats::peak and ...
  int64_t reserved_bytes = 0;             ///< ... reserved
  StepWork work = {};
  std::vector<LayerTimes> layers = {};

  /// Quantile `share` of the step times, interpolated linearly: 0.5 is the median.
  double quantile(double share) const;
  double examples_per_s() const { return 1e3 * static_cast<double>(batch) / quantile(0.5); }
  double tflops() const { return work.operations() / quantile(0.5) / 1e9; }
  double gb_per_s() const { return work.bytes() / quantile(0.5) / 1e6; }
};

/// `config` as for an Experiment; throws what that does, and usage for fewer than one step.
BenchmarkResult run_benchmark(Config config, const BenchmarkOptions& options);

/// Ceilings of `device` with operands of `dtype`.
Ceilings measure_ceilings(Device device, DType dtype);
/// Ceilings of `config`'s device in its precision.
Ceilings measure_ceilings(const Config& config);

}  // namespace whisker
