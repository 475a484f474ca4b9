#include "data/sequences/scaling.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace whisker {
namespace {

// Bounds of a field, and of a scaling: sums and differences of such values, scaled, are far from
// what f32 and squares in f64 cannot hold.
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

std::string comma_note(const std::string& field) {
  std::string pointed = field, without = field;
  std::ranges::replace(pointed, ',', '.');
  std::erase(without, ',');
  if (pointed == field || !number_of(without)) return "";
  if (!number_of(pointed)) return fmt::format(": write {}", without);
  const bool thousands = pointed.size() - pointed.find('.') == 4;  // three digits behind it
  return fmt::format(": numbers have a decimal point: write {}{}", pointed,
                     thousands ? " or " + without : "");
}

Spread Spread::of(std::span<const double> values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.mean = mean, .deviation = std::sqrt(squares / count), .count = std::ssize(values)};
}

bool Spread::is_constant() const {
  constexpr double rounding = 1e-12;
  return deviation < least_deviation || deviation <= rounding * std::abs(mean);
}

Scaling Scaling::fitted_to(std::span<const double> values, int rules) {
  if (values.empty()) return {};
  const Spread spread = Spread::of(values);
  const bool unscaled = rules > 2 ? spread.is_constant() : spread.deviation < least_deviation;
  return {.mean = spread.mean,
          .deviation = unscaled ? 1 : spread.deviation,
          .constant = spread.is_constant()};
}

std::string unlike_note(std::span<const Spread> values, std::span<const Scaling> trained,
                        std::span<const std::string> names) {
  constexpr int64_t few = 8, many = 100;  // a part of the data may vary less than all of them
  constexpr double far = 3, other_scale = 10;
  std::string first;
  int64_t count = 0;
  for (size_t i = 0; i < std::min(values.size(), trained.size()); ++i) {
    const auto& [mean, deviation, values_count] = values[i];
    const Scaling& then = trained[i];
    const bool unlike = std::abs(mean - then.mean) > far * then.deviation ||
                        deviation > other_scale * then.deviation ||
                        (values_count >= many && other_scale * deviation < then.deviation);
    if (values_count < few || !unlike || count++ > 0) continue;
    first = fmt::format("{} with mean {:.4g} and deviation {:.4g}, in training {:.4g} and {:.4g}",
                        names[i], mean, deviation, then.mean, then.deviation);
  }
  if (count == 0) return "";
  return fmt::format("unlike the training data, as in other units: {}{}", first,
                     count > 1 ? fmt::format("; and {} more", count - 1) : "");
}

std::string constant_note(std::span<const Scaling> scaling, std::span<const std::string> names) {
  const auto first = std::ranges::find(scaling, true, &Scaling::constant);
  if (first == scaling.end()) return "";
  const auto count = std::ranges::count(scaling, true, &Scaling::constant);
  return fmt::format(
      "{} is the same in all training rows, {:.6g}{}: a network learns nothing from "
      "it, and other values will not be scaled",
      names[static_cast<size_t>(first - scaling.begin())], first->mean,
      count > 1 ? fmt::format(" (and so are {} more)", count - 1) : "");
}

std::string placeholder_note(std::vector<double> values, std::string_view name) {
  constexpr std::ptrdiff_t fewest = 3, others = 8;
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  if (values.empty()) return "";
  const double least = values.front();
  const auto next = std::ranges::upper_bound(values, least);
  const std::ptrdiff_t count = next - values.begin();
  if (least >= 0 || least != std::floor(least) || count < fewest) return "";
  if (values.end() - next < others) return "";
  const double range = values.back() - *next;
  if (range <= 0 || *next - least <= range) return "";
  return fmt::format(
      "{} holds {:.10g} in {} of {} rows, and {:.4g} to {:.4g} in the others: if it stands for a "
      "missing value, leave the field empty",
      name, least, count, values.size(), *next, values.back());
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
