// Numbers out of fields of text, and what they are scaled by: fitted to training data, kept in the
// weights file.
#pragma once

#include "core/io/json.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace whisker {

/// The finite number that the whole field is, spaces around it aside; nothing for anything else.
std::optional<double> number_of(std::string_view field);

/// value -> (value - mean) / deviation.
struct Scaling {
  double mean = 0;
  double deviation = 1;

  /// Mean 0 and deviation 1 over `values`; where they do not differ the deviation stays 1.
  static Scaling fitted_to(std::span<const double> values);
  double apply(double value) const { return (value - mean) / deviation; }
  double restore(double scaled) const { return scaled * deviation + mean; }
};

/// Under `key`, an array of {mean, deviation}; and back.
void write(JsonWriter& json, const char* key, std::span<const Scaling> scaling);
std::vector<Scaling> read_scaling(const JsonValue& json);

}  // namespace whisker
