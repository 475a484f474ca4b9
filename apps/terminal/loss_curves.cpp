#include "apps/terminal/loss_curves.h"

#include "core/io/json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double number_or_nan(const JsonValue& line, std::string_view key) {
  const JsonValue* value = line.find(key);
  return value && value->is_number() ? value->as_double() : unknown;
}

// "1.6658 to 0.3666, lowest 0.2913"; the lowest where it is not the last.
std::string range_text(const std::vector<double>& values) {
  std::vector<double> known;
  std::ranges::copy_if(values, std::back_inserter(known),
                       [](double v) { return std::isfinite(v); });
  if (known.empty()) return "";
  const double lowest = std::ranges::min(known);
  return fmt::format("{:.4f} to {:.4f}{}", known.front(), known.back(),
                     lowest < known.back() ? fmt::format(", lowest {:.4f}", lowest) : "");
}

}  // namespace

std::string block_curve(std::span<const double> values, double low, double high, size_t columns) {
  constexpr std::string_view blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  columns = std::min(columns, values.size());
  std::string text;
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    int count = 0;
    for (size_t i = column * values.size() / columns; i < (column + 1) * values.size() / columns;
         ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      ++count;
    }
    const double height = high > low && count > 0 ? (sum / count - low) / (high - low) : 0;
    text += count > 0 ? blocks[std::min<size_t>(7, static_cast<size_t>(8 * std::max(0.0, height)))]
                      : " ";
  }
  return text;
}

std::string loss_curves(std::istream& metrics, size_t columns) {
  std::vector<double> train, val;
  for (std::string line; std::getline(metrics, line);) {
    if (!line.starts_with(R"({"kind":"epoch")")) continue;
    const JsonValue epoch = JsonValue::parse(line, {.name = "metrics.jsonl"});
    train.push_back(number_or_nan(epoch, "train_loss"));
    val.push_back(number_or_nan(epoch, "val_loss"));
  }
  if (train.size() < 3) return "";
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* values : {&train, &val}) {
    for (const double value : *values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const std::string of_train = range_text(train), of_val = range_text(val);
  constexpr size_t names = 14;  // "  validation  "
  const size_t beside = names + 2 + std::max(of_train.size(), of_val.size());
  const size_t width = columns > beside + 10 ? columns - beside : 10;
  return fmt::format("loss over {} epochs:\n  training    {}  {}\n  validation  {}  {}",
                     train.size(), block_curve(train, low, high, width), of_train,
                     block_curve(val, low, high, width), of_val);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string upper;
    for (const char c : std::string_view(value)) {
      if (c != '-') upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    return upper.find("UTF8") != std::string::npos;
  }
  return false;
}

}  // namespace whisker
