#include "data/sequences/scaling.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace whisker {
namespace {

// Of a field, and of a scaling: sums and differences of such values, scaled, are far from what f32
// and squares in f64 cannot hold.
constexpr double most_value = 1e30;
constexpr double most_mean = 1e35;
constexpr double least_deviation = 1e-30;

}  // namespace

std::optional<double> number_of(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  const bool whole = !field.empty() && error == std::errc() && stop == end;
  if (!whole || !(std::abs(value) <= most_value)) {
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
  return {.mean = mean, .deviation = deviation >= least_deviation ? deviation : 1};
}

void write(JsonWriter& json, const char* key, std::span<const Scaling> scaling) {
  json.list(key, scaling, [&](const Scaling& one) {
    json.begin_object().field("mean", one.mean).field("deviation", one.deviation).end_object();
  });
}

std::vector<Scaling> read_scaling(const JsonValue& json) {
  std::vector<Scaling> all;
  for (const JsonValue& one : json.items()) {
    const double deviation = one.at("deviation").as_double(least_deviation, most_mean);
    const double limit = most_mean * std::min(1.0, deviation);
    all.push_back({.mean = one.at("mean").as_double(-limit, limit), .deviation = deviation});
  }
  return all;
}

}  // namespace whisker
