#include "data/scaling.h"

#include <charconv>
#include <cmath>

namespace whisker {

std::optional<double> number_of(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (field.empty() || error != std::errc() || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

Scaling Scaling::fitted_to(std::span<const double> values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / count);
  return {.mean = mean, .deviation = deviation > 0 ? deviation : 1};
}

void write(JsonWriter& json, const char* key, std::span<const Scaling> scaling) {
  json.key(key).begin_array();
  for (const Scaling& one : scaling) {
    json.begin_object().field("mean", one.mean).field("deviation", one.deviation).end_object();
  }
  json.end_array();
}

std::vector<Scaling> read_scaling(const JsonValue& json) {
  std::vector<Scaling> all;
  for (const JsonValue& one : json.items()) {
    all.push_back(
        {.mean = one.at("mean").as_double(), .deviation = one.at("deviation").as_double()});
  }
  return all;
}

}  // namespace whisker
