// Parses numbers, and scales them by factors that are fitted to training data and kept in the
// weights file.
#pragma once

#include "core/io/json.h"
#include "data/files/decode_rules.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The number in `field`, at most 1e30 in size, with spaces around it allowed; nothing for other
/// text.
std::optional<double> number_of(std::string_view field);

/// ": numbers have a decimal point: write 1.01" of '1,01' (of '1,101' also 1101); "" where no comma
/// stands in a number.
std::string comma_note(const std::string& field);

/// Mean and deviation of `count` values, as they are.
struct Spread {
  double mean = 0;
  double deviation = 0;
  int64_t count = 0;

  static Spread of(std::span<const double> values);
  /// Whether the values differ by no more than what rounding leaves.
  bool is_constant() const;
};

/// value -> (value - mean) / deviation.
struct Scaling {
  double mean = 0;
  double deviation = 1;
  bool constant = false;  ///< fitted to equal values; not stored

  /// Mean 0 and deviation 1 over `values`; the deviation stays 1 where all values are equal, up to
  /// rounding from data.rules 3 on.
  static Scaling fitted_to(std::span<const double> values, int rules = newest_data_rules);
  double apply(double value) const { return (value - mean) / deviation; }
  double restore(double scaled) const { return scaled * deviation + mean; }
};

/// That values are far from those of training: their mean lies more than 3 deviations away, or
/// their deviation is 10 times larger or smaller. `names`: of each of `values`. "" where they are
/// not, and where there are too few to tell.
std::string unlike_note(std::span<const Spread> values, std::span<const Scaling> trained,
                        std::span<const std::string> names);

/// Which values were the same throughout; "" where none were.
std::string constant_note(std::span<const Scaling> scaling, std::span<const std::string> names);

/// That the lowest of `values` may stand for missing ones, as -200 and -9999 in published tables: a
/// negative whole number, three times and more, farther below the others than these are apart.
/// NaN is left out. "" where there is none.
std::string placeholder_note(std::vector<double> values, std::string_view name);

/// Under `key`, an array of {mean, deviation}; and back.
void write(JsonWriter& json, const char* key, std::span<const Scaling> scaling);
/// Throws the JSON's error kind for numbers that would scale values beyond f32.
std::vector<Scaling> read_scaling(const JsonValue& json);

}  // namespace whisker
