#include "train/config/unlikely_settings.h"

#include "core/error.h"
#include "train/config/preprocess_config.h"

#include <algorithm>
#include <span>

namespace whisker {

std::string units_note(const Normalisation& normalisation, int channels, std::string_view keys) {
  const double largest = 255 * normalisation.scale;
  const auto mean = std::span(normalisation.mean).first(static_cast<size_t>(channels));
  const auto std = std::span(normalisation.std).first(static_cast<size_t>(channels));
  bool any = false, outside = false, all_small = true;
  const auto look_at = [&](double value, double neutral) {
    constexpr double rounding = 1 + 1e-6;
    constexpr double least = 1.0 / 200;  // of the range: darker images are hardly meant
    if (value == neutral) return;        // leaves pixels alone, whatever their units
    any = true;
    outside = outside || value < 0 || value > largest * rounding;
    all_small = all_small && value < largest * least;
  };
  for (const double value : mean) look_at(value, 0);
  for (const double value : std) look_at(value, 1);
  if (!outside && !(any && all_small)) return "";
  return fmt::format(
      "{0}mean [{1:.4g}] and {0}std [{2:.4g}] do not fit pixels of 0 to {3:.4g}, which are "
      "{0}scale {4:.4g} times 0 to 255: {0}scale=1 is for mean and std of 0 to 255, "
      "{0}scale={5:.6g} for those of 0 to 1",
      keys, fmt::join(mean, ", "), fmt::join(std, ", "), largest, normalisation.scale, 1.0 / 255);
}

std::vector<std::string> unlikely_settings(const Config& config) {
  std::vector<std::string> lines;
  if (config.data.kind == DataKind::images) {
    const Preprocess preprocess = preprocess_of(config.data);
    std::string note = units_note(preprocess.normalisation, preprocess.channels, "data.");
    if (!note.empty()) lines.push_back(std::move(note));
  }
  const SamplingKind sampling = config.data.sampling;
  const bool evens = sampling == SamplingKind::balanced || sampling == SamplingKind::weighted;
  if (evens && config.loss.class_weights == ClassWeighting::balanced) {
    lines.push_back(fmt::format(
        "data.sampling={} and loss.class_weights=balanced both even out the classes, which makes "
        "rare ones count more than frequent ones: one of them is enough",
        sampling == SamplingKind::balanced ? "balanced" : "weighted"));
  }
  return lines;
}

}  // namespace whisker
