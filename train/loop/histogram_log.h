// histograms.jsonl of train.histogram_every: one row per recorded step, statistics and histograms
// of each layer's result and of each parameter (docs/reference/formats.md).
#pragma once

#include "core/trace/recording.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Statistics of a tensor of `count` elements.
struct TensorSummary {
  int64_t count = 0;
  TensorStatistics statistics = {};
};

/// What a layer's last operator gave, and d(mean loss of the batch)/d(that).
struct LayerHistograms {
  std::string layer;  ///< dotted name
  std::string op;     ///< "conv2d_max_pool2d"
  TensorSummary activations = {};
  std::optional<TensorSummary> gradients = {};  ///< nothing where none flows
  /// The channels of an operator with a relu, and those that were 0 for the whole batch.
  std::optional<int64_t> units = {}, dead_units = {};
};

struct ParameterHistograms {
  std::string name;
  TensorSummary weights = {};                   ///< behind the update
  std::optional<TensorSummary> gradients = {};  ///< nothing of what is frozen
  /// Norm of the update / norm of the weights before it; nothing where these were 0 or not finite.
  std::optional<double> update_ratio = {};
};

struct HistogramRow {
  int64_t step = 0, epoch = 0;  ///< from 1
  int64_t examples = 0;         ///< in the batch
  std::vector<LayerHistograms> layers = {};
  std::vector<ParameterHistograms> parameters = {};

  /// One line, without its end.
  std::string json() const;
  /// The row of such a line; throws data, naming `place`, for anything else.
  static HistogramRow read(std::string_view line, const std::string& place);
};

/// Calls `receive` for each row. A last line without an end, which a run is still writing or was
/// killed at, is left out. Throws data, "FILE:LINE: ...", for what cannot be read, a line of more
/// than 64 MiB, and steps that do not ascend.
void read_histograms(const std::filesystem::path& file,
                     const std::function<void(HistogramRow)>& receive);

}  // namespace whisker
