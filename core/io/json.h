// JSON: a writer for metrics.jsonl, --json and state.json, and a bounded reader into a small tree.
// Numbers are locale-independent both ways; text is UTF-8 (RFC 8259).
#pragma once

#include "core/error.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace whisker {

/// What a writer does with NaN and infinities, which JSON cannot express.
enum class NonFinite { refuse, null };

/// Builds one JSON text on one line. Misuse (a value without its key, an unclosed array) throws
/// internal.
class JsonWriter {
 public:
  explicit JsonWriter(NonFinite non_finite = NonFinite::refuse) : non_finite_(non_finite) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('{', '}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close('[', ']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& null();
  JsonWriter& value(bool flag);
  /// The shortest text that reads back as the same double; throws internal for a refused NaN.
  JsonWriter& value(double number);
  /// The shortest text that reads back as the same float.
  JsonWriter& value(float number);
  template <std::integral T>
  JsonWriter& value(T number) {
    if constexpr (std::is_signed_v<T>) {
      return integer(static_cast<int64_t>(number));
    } else {
      return integer(static_cast<uint64_t>(number));
    }
  }
  /// Escaped text. Bytes that are not UTF-8 (file names may hold them) become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  /// null for what is not known.
  template <class T>
  JsonWriter& value(const std::optional<T>& known) {
    return known ? value(*known) : null();
  }

  /// key(name).value(v)
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  /// key(name) and an array of `values`; `write` is called for each of them instead, if given.
  template <class Values, class Write>
  JsonWriter& list(std::string_view name, const Values& values, Write write) {
    key(name).begin_array();
    for (const auto& one : values) write(one);
    return end_array();
  }
  template <class Values>
  JsonWriter& list(std::string_view name, const Values& values) {
    return list(name, values, [this](const auto& one) { this->value(one); });
  }

  /// The finished text, without a newline.
  const std::string& str() const;

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket, char closing);
  JsonWriter& integer(int64_t number);
  JsonWriter& integer(uint64_t number);
  template <class T>
  JsonWriter& floating(T number);
  void before_value();
  void append_quoted(std::string_view text);

  std::string text_;
  std::string open_;  // brackets not yet closed
  NonFinite non_finite_;
  bool first_ = true;  // nothing written yet in the innermost bracket
  bool after_key_ = false;
};

/// Bounds and error context of a read.
struct JsonLimits {
  std::string name = "JSON";  ///< file name for errors
  int max_depth = 16;         ///< nested objects and arrays
  size_t max_values = 1'000'000;
  ErrorKind kind = ErrorKind::data;  ///< of every error, from the getters too
};

/// One value of a parsed text. Objects keep their order. The getters throw the limits' kind with
/// the file name and the value's key when the value is of another type or out of range.
class JsonValue {
 public:
  struct Context;  // file name and error kind, shared by all values of one text
  using Members = std::vector<std::pair<std::string, JsonValue>>;
  using Items = std::vector<JsonValue>;

  /// Throws limits.kind for anything but one valid JSON text within the limits: bad UTF-8,
  /// duplicate keys and integers beyond 64 bits are refused.
  static JsonValue parse(std::string_view text, const JsonLimits& limits);

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_number() const {
    return std::holds_alternative<int64_t>(data_) || std::holds_alternative<uint64_t>(data_) ||
           std::holds_alternative<double>(data_);
  }
  bool is_array() const { return std::holds_alternative<Items>(data_); }
  bool is_object() const { return std::holds_alternative<Members>(data_); }
  bool as_bool() const;
  int64_t as_int(int64_t low = std::numeric_limits<int64_t>::min(),
                 int64_t high = std::numeric_limits<int64_t>::max()) const;
  uint64_t as_uint() const;
  /// Any number, integers rounded to the nearest double.
  double as_double(double low = std::numeric_limits<double>::lowest(),
                   double high = std::numeric_limits<double>::max()) const;
  const std::string& as_string() const;
  const Items& items() const;      ///< of an array
  std::vector<std::string> as_strings() const;  ///< of an array of texts
  const Members& members() const;  ///< of an object, in order
  /// Member of an object; nullptr when there is none.
  const JsonValue* find(std::string_view key) const;
  /// Member of an object that must be there.
  const JsonValue& at(std::string_view key) const;

 private:
  friend class JsonTreeBuilder;
  [[noreturn]] void fail_type(std::string_view expected) const;
  [[noreturn]] void fail_expected(std::string_view expected, std::string_view got) const;
  template <class T>
  T in_range(T number, T low, T high) const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Items, Members> data_;
  std::shared_ptr<const Context> context_;
  std::string key_;  // under which the value stands in its object; "" elsewhere
};

}  // namespace whisker
