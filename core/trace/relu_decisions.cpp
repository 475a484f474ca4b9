#include "core/trace/relu_decisions.h"

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"
#include "core/tensor/unit_roundoff.h"
#include "core/trace/recording_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace whisker {

void ReluDecisions::see(const TapeEntry& entry, const Tensor& output) {
  if (output.count() == 0) return;
  const std::string key = fmt::format("{} {} {}", entry.layer, entry.name, output.shape());
  if (!of_b_) {
    const Tensor copy =
        empty(output.shape(), {.dtype = output.dtype(), .device = reference_device});
    backend_of(output.device()).download(output.raw(), copy.raw(), output.bytes());
    seen_[key].push_back(copy);
    return;
  }
  std::vector<Tensor>& alike = seen_[key];
  const size_t number = next_[key]++;
  if (number >= alike.size()) return;
  const Tensor kept = std::exchange(alike[number], {});
  const std::vector<double> a = kept.to_vector();
  std::vector<double> values = output.to_vector();
  double largest = 0, apart = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(values[i])) continue;
    largest = std::max({largest, a[i], values[i]});
    if (a[i] == 0 || values[i] == 0) continue;
    apart = std::max(apart, std::fabs(a[i] - values[i]));
  }
  const DType coarsest =
      unit_roundoff(kept.dtype()) > unit_roundoff(output.dtype()) ? kept.dtype() : output.dtype();
  const double unit = unit_roundoff(coarsest) * largest;
  const double within =
      std::min(tolerance_.value_or(usual_tolerance(coarsest)) * unit, std::max(2 * apart, unit));
  const double least = output.dtype() == DType::f16 ? 0x1p-14 : 0x1p-126;  // that is not 0
  int64_t changed = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool differs = (a[i] == 0) != (values[i] == 0);
    if (!differs || !(std::fabs(a[i] - values[i]) <= within)) continue;
    values[i] = a[i] == 0 ? 0 : std::max(a[i], least);
    ++changed;
  }
  elements_ += std::ssize(values);
  changed_ += changed;
  if (changed == 0) return;
  const Tensor as_a = from_vector(values, output.shape(), output.options());
  backend_of(output.device()).copy(as_a.raw(), output.raw(), output.bytes());
}

}  // namespace whisker
