// Parses numbers, and scales them by factors that are fitted to training data and kept in the
// weights file.
#pragma once

#include "core/io/json.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace whisker {

/// The number in `field`, at most 1e30 in size, with spaces around it allowed; nothing for other
/// text.
std::optional<double> number_of(std::string_view field);

/// value -> (value - mean) / deviation.
struct Scaling {
  double mean = 0;
  double deviation = 1;

  /// Mean 0 and deviation 1 over `values`; the deviation stays 1 where all values are equal.
  static Scaling fitted_to(std::span<const double> values);
  double apply(double value) const { return (value - mean) / deviation; }
  double restore(double scaled) const { return scaled * deviation + mean; }
};

/// Under `key`, an array of {mean, deviation}; and back.
void write(JsonWriter& json, const char* key, std::span<const Scaling> scaling);
/// Throws the JSON's error kind for numbers that would scale values beyond f32.
std::vector<Scaling> read_scaling(const JsonValue& json);

}  // namespace whisker
