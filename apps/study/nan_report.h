// What `whisker study nan` says of a step that diverged.
#pragma once

#include "core/trace/non_finite_origin.h"
#include "train/loop/failed_step.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct NanReport {
  std::string file;
  FailedStep step;
  std::vector<std::string> damaged_weights = {};
  std::vector<int64_t> damaged_rows = {};   ///< of the batch, by their numbers in the data
  std::optional<Recording> recording = {};  ///< none without a batch
  std::optional<NonFiniteOrigin> origin = {};
  std::string place = {};  ///< of the layer in the configuration

  /// Runs the step again.
  static NanReport of(const KeptStep& kept, const std::string& file, Device device,
                      DType precision);

  /// Lines of at most `width` columns; 0: of any length.
  std::string text(size_t width) const;
  std::string json() const;

 private:
  std::vector<std::string> sentences() const;
};

}  // namespace whisker
