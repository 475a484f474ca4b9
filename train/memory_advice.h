// What a training run will take of its device's memory, and what to do when it does not fit: the
// batch that should, and settings that save memory with the bytes that each of them saves.
#pragma once

#include "core/error.h"
#include "layers/summary.h"
#include "train/experiment.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// What decides the memory of `config`'s run when layers compute in `compute` on such a device.
SummaryOptions summary_options(const Config& config, DType compute, DeviceKind device);

/// Of training steps on `batch` examples.
MemoryPrediction predict_memory(const Experiment& experiment, int64_t batch);

/// Largest batch whose predicted memory stays below 4/5 (on the CPU a third) of `capacity_bytes`,
/// less what a cache of pictures holds of them, as kernels and libraries work in the rest; but
/// smaller than the present one, which did not fit; 0 when none is, not even one example's.
int64_t batch_that_fits(const Experiment& experiment, int64_t capacity_bytes);

/// A change of the configuration, by itself.
struct MemoryRemedy {
  std::string settings;  ///< overrides: "train.batch_size=16 train.accumulate=2"
  std::string note;      ///< what else changes; "" for nothing
  int64_t saved_bytes = 0;
};

/// Those that save at least a hundredth, the best first.
std::vector<MemoryRemedy> memory_remedies(const Experiment& experiment, int64_t capacity_bytes);

/// All of it in a few sentences.
std::string memory_advice(const Experiment& experiment, int64_t capacity_bytes);

/// What `run` returns. When it throws OutOfMemory, the error leaves with the advice.
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
