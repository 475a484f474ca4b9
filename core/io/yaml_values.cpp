// Typed getters of YamlNode. One grammar per type, independent of locale and of yaml-cpp, where
// `010` is 8 or 10 by type and `1e3` is no integer.
#include "core/io/yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace whisker {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// [+-] digits [. digits] [e [+-] digits], at least one digit before the exponent and no leading
// zeros; the parts are kept for exact integers.
struct Decimal {
  bool negative = false;
  std::string_view whole, fraction, exponent;
};

std::optional<Decimal> split_decimal(std::string_view text) {
  Decimal parts;
  const auto take_digits = [&] {
    const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
    const std::string_view digits = text.substr(0, static_cast<size_t>(end - text.begin()));
    text.remove_prefix(digits.size());
    return digits;
  };
  if (text.starts_with('+') || text.starts_with('-')) {
    parts.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  parts.whole = take_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    parts.fraction = take_digits();
  }
  if (parts.whole.empty() && parts.fraction.empty()) return std::nullopt;
  if (parts.whole.size() > 1 && parts.whole.front() == '0') return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    parts.exponent = text.substr(1);
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (take_digits().empty()) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return parts;
}

// "an integer from 1 to 10", "a number of 0 or more": the limits that are set.
template <class T>
std::string describe(std::string_view noun, YamlRange<T> range) {
  const bool from = range.min != YamlRange<T>{}.min, to = range.max != YamlRange<T>{}.max;
  if (from && to) return fmt::format("{} from {} to {}", noun, range.min, range.max);
  if (from) return fmt::format("{} of {} or more", noun, range.min);
  if (to) return fmt::format("{} of {} or less", noun, range.max);
  return std::string(noun);
}

// The value of whole x 10^exponent; nothing when it does not fit.
std::optional<int64_t> exact_integer(const Decimal& parts) {
  int exponent = 0;
  if (!parts.exponent.empty()) {
    std::string_view digits = parts.exponent;
    if (digits.front() == '+') digits.remove_prefix(1);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (result.ec != std::errc() || exponent < 0) return std::nullopt;
  }
  int64_t value = 0;
  const std::string_view whole = parts.whole;
  for (const char c : whole) {
    const int64_t digit = parts.negative ? '0' - c : c - '0';
    if (__builtin_mul_overflow(value, int64_t{10}, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, digit, &value)) return std::nullopt;
  }
  for (; exponent > 0 && value != 0; --exponent) {
    if (__builtin_mul_overflow(value, int64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

}  // namespace

std::string YamlNode::as_string() const {
  if (!is_scalar()) fail_expected("text");
  return text_;
}

bool YamlNode::as_bool() const {
  static constexpr std::array<std::array<std::string_view, 3>, 3> truths = {
      {{"true", "True", "TRUE"}, {"yes", "Yes", "YES"}, {"on", "On", "ON"}}};
  static constexpr std::array<std::array<std::string_view, 3>, 3> falsehoods = {
      {{"false", "False", "FALSE"}, {"no", "No", "NO"}, {"off", "Off", "OFF"}}};
  const auto is_one_of = [&](const auto& words) {
    return std::any_of(words.begin(), words.end(), [&](const auto& spellings) {
      return std::find(spellings.begin(), spellings.end(), text_) != spellings.end();
    });
  };
  if (is_scalar() && !quoted_) {
    if (is_one_of(truths)) return true;
    if (is_one_of(falsehoods)) return false;
  }
  fail_expected("true or false", quoted_ ? "Remove the quotes." : "");
}

int64_t YamlNode::as_int(YamlRange<int64_t> range) const {
  const std::string expected = describe("an integer", range);
  if (!is_scalar() || quoted_) fail_expected(expected, quoted_ ? "Remove the quotes." : "");
  const std::optional<Decimal> parts = split_decimal(text_);
  if (!parts || text_.find('.') != std::string::npos || parts->exponent.starts_with('-')) {
    const bool zeros = text_.size() > 1 && text_.front() == '0' && is_digit(text_[1]);
    fail_expected(expected, zeros ? "Remove the leading zeros." : "");
  }
  const std::optional<int64_t> value = exact_integer(*parts);
  if (!value) fail_expected(expected, "It must fit 64 bits.");
  if (*value < range.min || *value > range.max) fail_expected(expected);
  return *value;
}

double YamlNode::as_double(YamlRange<double> range, bool allow_non_finite) const {
  const std::string expected = describe("a number", range);
  if (!is_scalar() || quoted_) fail_expected(expected, quoted_ ? "Remove the quotes." : "");
  if (allow_non_finite) {
    if (text_ == ".nan") return std::numeric_limits<double>::quiet_NaN();
    if (text_ == ".inf" || text_ == "+.inf") return std::numeric_limits<double>::infinity();
    if (text_ == "-.inf") return -std::numeric_limits<double>::infinity();
  }
  if (!split_decimal(text_)) fail_expected(expected);
  const std::string_view digits = std::string_view(text_).substr(text_.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc()) fail_expected(expected, "It must fit a double.");
  if (value < range.min || value > range.max) fail_expected(expected);
  return value;
}

std::span<const YamlNode> YamlNode::as_sequence() const {
  if (!is_sequence()) fail_expected("a list");
  return items_;
}

const YamlNode& YamlNode::as_map() const {
  if (!is_map()) fail_expected("a map");
  return *this;
}

}  // namespace whisker
