// metrics.jsonl: one object per logged step, epoch and extra validation; what overflowed is null
// (docs/reference/formats.md).
#pragma once

#include "core/io/run_files.h"
#include "train/loop/events.h"
#include "train/metrics/metrics.h"

#include <cstdint>
#include <string>

namespace whisker {

class MetricsLog {
 public:
  /// Null: of a rank that logs nothing.
  explicit MetricsLog(LogFile* file) : file_(file) {}

  /// `seconds`: of training so far.
  void step(const StepEvent& event, double seconds);
  /// `step`: optimizer steps so far.
  void epoch(const EpochEvent& event, int64_t step, double seconds);
  /// A validation within an epoch, counted from 0.
  void validation(const Metrics& metrics, bool best, int64_t epoch, int64_t step);

 private:
  void append(const std::string& line);

  LogFile* file_;
};

}  // namespace whisker
