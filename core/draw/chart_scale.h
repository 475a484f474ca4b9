// An axis of a chart. Internal to core/draw.
#pragma once

#include "core/draw/chart.h"
#include "core/io/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace whisker {

/// The range of the values that an axis has to show.
struct ChartRange {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void add(double value, bool log) {
    if (!std::isfinite(value) || (log && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Room for points at the border and their labels.
  void widen(bool log) {
    const double by = log ? 1.6 : 0.05 * (high - low);
    low = log ? low / by : low - by;
    high = log ? high * by : high + by;
  }
};

/// From values to px, with ticks.
class ChartScale {
 public:
  ChartScale(const ChartAxis& axis, const ChartRange& range, double from, double to);

  bool has(double value) const { return std::isfinite(value) && (!axis_.log || value > 0); }
  double px(double value) const {
    return from_ + (to_ - from_) * std::clamp((along(value) - low_) / (high_ - low_), 0.0, 1.0);
  }

  std::vector<double> ticks() const;
  std::string text(double value) const {
    return axis_.bytes ? human_bytes(static_cast<uint64_t>(std::max(value, 0.0)))
                       : fmt::format("{:.{}g}", value, digits());
  }

 private:
  // So many that neighbouring ticks differ where the range is small beside its values.
  int digits() const {
    if (axis_.log) return 4;
    const double ticks = std::max(std::abs(low_), std::abs(high_)) / (high_ - low_);
    if (!std::isfinite(ticks)) return 4;
    return static_cast<int>(std::clamp(std::ceil(std::log10(ticks)) + 2, 4.0, 12.0));
  }
  double along(double value) const { return axis_.log ? std::log10(value) : value; }

  const ChartAxis& axis_;
  double from_, to_, low_ = 0, high_ = 1;
};

}  // namespace whisker
