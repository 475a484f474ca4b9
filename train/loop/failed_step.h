// non_finite.safetensors of a run folder: the batch whose loss or gradients were not finite and the
// state that it met, kept so that `whisker study nan` can run the step again, without the data.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/trace/recording.h"
#include "train/experiment.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

inline constexpr uint64_t most_failed_step_bytes = uint64_t{4} << 30;

/// The step beside its batch and state.
struct FailedStep {
  std::string what;         ///< "the loss"
  std::string found;        ///< what the run's own search found first
  int64_t epoch = 0;        ///< from 1, as the others
  int64_t step = 0;         ///< updates
  int64_t batch = 0;        ///< of the run: keys dropout
  int64_t rank = 0;         ///< from 0; the batch is this rank's part
  double loss_scale = 1;    ///< what backward began with
  std::string device = {};  ///< "cuda:0"
  DType precision = DType::f32;
};

/// Writes the file atomically. `batch`: none where no batch failed (validation, saving); `states`:
/// those that it began with. Returns its bytes. Throws disk where it cannot be written, and where
/// it would be larger than most_failed_step_bytes.
uint64_t keep_failed_step(const std::filesystem::path& file, const Experiment& experiment,
                          FailedStep step, const std::optional<Batch>& batch,
                          const CarriedStates& states);

/// The step of such a file, to be run again.
class KeptStep {
 public:
  /// Throws checkpoint, naming the file, for what keep_failed_step() did not write.
  explicit KeptStep(const std::filesystem::path& file);

  const FailedStep& step() const { return step_; }
  const Config& config() const { return config_; }
  bool has_batch() const { return batch_.has_value(); }
  /// Names of the parameters and running statistics with a NaN or Inf.
  std::vector<std::string> damaged_weights() const;
  /// The forward and backward pass with all values; has_batch().
  Recording run(Device device, DType precision) const;
  /// Rows of the batch with a NaN or Inf in inputs or targets, by their numbers in the data.
  std::vector<int64_t> damaged_rows() const;
  /// Where the configuration has the layer, or what contains it: "RUN/config.yaml:14:5:
  /// model.layers[3]", "preset lstm:7:5: head[0], of the model at RUN/config.yaml:40:8"; "" for
  /// none.
  std::string place_of(const std::string& layer) const;

 private:
  Model build() const;
  std::string place_of_layer(const std::string& layer) const;

  SafetensorsFile file_;
  FailedStep step_;
  WeightsInfo info_;
  Config config_;
  std::vector<int64_t> class_counts_;
  bool unfrozen_ = false;
  std::optional<Batch> batch_;  // on the host
  CarriedStates states_;
};

}  // namespace whisker
