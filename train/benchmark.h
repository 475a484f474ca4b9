// How fast a configuration trains or classifies on this machine, and how near that is to what the
// machine can do. One batch is read and used again and again, so that only computing is measured.
#pragma once

#include "layers/step_work.h"
#include "train/config.h"
#include "train/step_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct BenchmarkOptions {
  bool inference = false;  ///< forward passes whose results come back to the host, one by one
  int64_t steps = 50;      ///< that are measured, after some that are not
  bool layers = true;      ///< traces three more training steps
};

struct BenchmarkResult {
  bool inference = false;
  std::string device, precision;
  int64_t batch = 0, steps = 0;
  bool captured = false;                  ///< steps were replays of a captured one
  std::vector<double> milliseconds = {};  ///< of each step, ascending
  int64_t peak_bytes = 0;                 ///< MemoryStats::peak and ...
  int64_t reserved_bytes = 0;             ///< ... reserved
  StepWork work = {};
  std::vector<LayerTimes> layers = {};

  /// The time that a share of the steps stays below, linear between two of them: 0.5 is the median.
  double quantile(double share) const;
  double examples_per_s() const { return 1e3 * static_cast<double>(batch) / quantile(0.5); }
  double tflops() const { return work.operations() / quantile(0.5) / 1e9; }
  double gb_per_s() const { return work.bytes() / quantile(0.5) / 1e6; }
};

/// `config` as for an Experiment; throws what that does, and usage for fewer than one step.
BenchmarkResult run_benchmark(Config config, const BenchmarkOptions& options);

/// Of `device` with operands of `dtype`.
Ceilings measure_ceilings(Device device, DType dtype);
/// In the precision that `config` computes in, on its device.
Ceilings measure_ceilings(const Config& config);

}  // namespace whisker
