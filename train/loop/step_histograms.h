// Watches one training step for histograms.jsonl. It reads values and changes none.
#pragma once

#include "core/trace/step_recorder.h"
#include "train/experiment.h"
#include "train/loop/histogram_log.h"

#include <optional>
#include <vector>

namespace whisker {

/// Histograms of the batch that runs between its construction and finish(), on this thread, with
/// its update. Where there are several ranks, layers and gradients are those of this rank's part of
/// the batch, weights and updates those of all.
class StepHistograms {
 public:
  explicit StepHistograms(const Experiment& experiment);

  /// Everything but step, epoch and examples. Waits for the device.
  HistogramRow finish();

 private:
  const Experiment& experiment_;
  std::vector<std::vector<float>> before_;  // of the parameters that train
  StepRecorder recorder_;
};

}  // namespace whisker
