// metrics.jsonl: one object per logged step, epoch and extra validation; what overflowed is null
// (docs/reference/formats.md). What it logs also goes to metrics.csv and, if wanted, to
// TensorBoard's file.
#pragma once

#include "core/io/run_files.h"
#include "train/loop/events.h"
#include "train/loop/metrics_csv.h"
#include "train/loop/tensorboard_log.h"
#include "train/metrics/metrics.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace whisker {

class MetricsLog {
 public:
  /// Null: of a rank that logs nothing.
  explicit MetricsLog(LogFile* file) : file_(file) {}

  /// Begins metrics.csv in `folder`: see MetricsCsv. Call it once metrics.jsonl ends where the run
  /// goes on. `metrics`: of validations, empty.
  void begin_csv(const std::filesystem::path& folder, const Metrics& metrics);
  /// Begins TensorBoard's file behind `step`; of a run that begins with a few of `images`, unless
  /// they are null.
  void begin_tensorboard(const std::filesystem::path& folder, int64_t step,
                         const ImageDataset* images);
  /// A message for the user; "" for none.
  std::string take_note();

  /// `seconds`: of training so far.
  void step(const StepEvent& event, double seconds);
  /// Writes to TensorBoard alone: histograms.jsonl is a file of its own.
  void histograms(const HistogramRow& row) { tensorboard_.histograms(row); }
  /// `step`: optimizer steps so far.
  void epoch(const EpochEvent& event, int64_t step, double seconds);
  /// A validation within an epoch, counted from 0.
  void validation(const Metrics& metrics, bool best, int64_t epoch, int64_t step);

 private:
  void append(const std::string& line);

  LogFile* file_;
  MetricsCsv csv_;
  TensorboardLog tensorboard_;
};

}  // namespace whisker
