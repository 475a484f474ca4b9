// Predicts a training run's memory, and advises what to do when it does not fit: a smaller batch,
// and settings with the bytes that each saves.
#pragma once

#include "core/error.h"
#include "layers/analysis/summary.h"
#include "train/experiment.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// The settings of `config` that determine memory when layers compute in `compute` on `device`.
SummaryOptions summary_options(const Config& config, DType compute, Device device);

/// Predicted memory of training steps on `batch` examples.
MemoryPrediction predict_memory(const Experiment& experiment, int64_t batch);

/// Largest batch of a rank whose predicted memory stays below 4/5 (on the CPU a third) of
/// `capacity_bytes` less the image cache; kernels and libraries use the rest. Smaller than the
/// present batch, which did not fit; 0 when not even one example fits.
int64_t batch_that_fits(const Experiment& experiment, int64_t capacity_bytes);

/// One change of the configuration.
struct MemoryRemedy {
  std::string settings;  ///< overrides: "train.batch_size=16 train.accumulate=2"
  std::string note;      ///< what else changes; "" for nothing
  int64_t saved_bytes = 0;
};

/// Changes that save at least 1 %, the best first.
std::vector<MemoryRemedy> memory_remedies(const Experiment& experiment, int64_t capacity_bytes);

/// The advice as text.
std::string memory_advice(const Experiment& experiment, int64_t capacity_bytes);

/// Returns what `run` returns. Adds the advice to an OutOfMemory that it throws.
template <class Run>
auto with_memory_advice(const Experiment& experiment, Run&& run) {
  try {
    return std::forward<Run>(run)();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        std::string(error.what()) + " " + memory_advice(experiment, error.capacity_bytes()),
        error.capacity_bytes());
  }
}

}  // namespace whisker
