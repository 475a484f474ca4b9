#include "core/draw/chart_scale.h"

namespace whisker {

ChartScale::ChartScale(const ChartAxis& axis, const ChartRange& range, double from, double to)
    : axis_(axis), from_(from), to_(to) {
  double low = axis.low.value_or(range.low);
  double high = axis.high.value_or(range.high);
  if (!(low <= high)) low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;  // no values
  if (low == high) {
    low = axis.log ? low / 2 : low - (low == 0 ? 0 : std::abs(low) / 2);
    high = axis.log ? high * 2 : high + (high == 0 ? 1 : std::abs(high) / 2);
  }
  low_ = along(low), high_ = along(high);
}

std::vector<double> ChartScale::ticks() const {
  std::vector<double> values;
  if (axis_.log) {
    const double decades = high_ - low_;
    const double step = std::max(1.0, std::ceil(decades / 8));
    for (double power = std::ceil(low_ - 1); power <= high_; power += step) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10, power);
        if (digit > 1 && decades > 2) continue;
        if (along(value) >= low_ - 1e-9 && along(value) <= high_ + 1e-9) values.push_back(value);
      }
    }
    return values;
  }
  const double least = (high_ - low_) / 6;
  double step = axis_.bytes ? std::exp2(std::ceil(std::log2(least)))
                            : std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (!axis_.bytes && step < least * (1 - 1e-9)) step *= factor;
  }
  if (axis_.bytes) step = std::max(step, 1.0);
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i < 20 && (first + i) * step <= high_ + 1e-9 * step; ++i) {
    values.push_back((first + i) * step + 0.0);  // not -0
  }
  return values;
}

}  // namespace whisker
