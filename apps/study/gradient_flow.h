// What `whisker study gradient-flow` shows of histograms.jsonl: how gradients, updates and dead
// units of each layer went over training.
#pragma once

#include "train/loop/histogram_log.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// A quantity at each recorded step; NaN where a step does not have it.
using StepValues = std::vector<double>;

struct LayerFlow {
  std::string layer, op;
  int64_t units = 0;           ///< of a relu; 0: none
  StepValues gradient = {};    ///< norm of d(loss)/d(what the layer gives)
  StepValues activation = {};  ///< its deviation
  StepValues zeros = {};       ///< fraction of it that is 0
  StepValues dead_units = {};  ///< of `units`
  StepValues not_finite = {};  ///< elements of it and of its gradient
  StepValues update = {};      ///< update-to-weight ratio of its largest parameter
};

struct ParameterFlow {
  std::string name;
  StepValues gradient = {};  ///< norm
  StepValues weight = {};    ///< norm
  StepValues update = {};    ///< update-to-weight ratio
};

struct GradientFlow {
  std::string run;
  std::vector<int64_t> steps = {};
  std::vector<LayerFlow> layers = {};  ///< in the order of the forward pass
  std::vector<ParameterFlow> parameters = {};

  /// Throws data, as read_histograms(), and where there are no rows.
  static GradientFlow of(const std::filesystem::path& file, const std::string& run);

  /// What stands out, a sentence or two each: gradients that vanish, explode or never come, dead
  /// units, updates that are too large or too small.
  std::vector<std::string> findings() const;

  /// Lines of at most `width` columns; 0: of any length.
  std::string text(size_t width) const;
  std::string json() const;
  std::string svg() const;
  std::string html() const;
};

bool is_gradient_flow_svg(std::string_view content);
bool is_gradient_flow_page(std::string_view content);

/// "rises 40x", "falls 3x", "steady": the last third beside the first; "" of fewer than two.
std::string trend_of(const StepValues& values);

}  // namespace whisker
