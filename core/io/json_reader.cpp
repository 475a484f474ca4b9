// The reader half of json.h: nlohmann-json's SAX parser, which keeps no tree and does not recurse,
// feeding our own bounded tree. Its tree would take duplicate keys and turn 2^64 into a float.
#include "core/io/json.h"
#include "core/io/text.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

namespace whisker {

struct JsonValue::Context {
  std::string name;
  ErrorKind kind;
};

/// SAX handler; every callback throws or returns true.
class JsonTreeBuilder {
 public:
  using number_integer_t = int64_t;
  using number_unsigned_t = uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  explicit JsonTreeBuilder(const JsonLimits& limits)
      : limits_(limits),
        context_(
            std::make_shared<JsonValue::Context>(JsonValue::Context{limits.name, limits.kind})) {}

  JsonValue take_root() { return std::move(root_); }

  bool null() { return add(std::monostate{}); }
  bool boolean(bool flag) { return add(flag); }
  bool number_integer(int64_t number) { return add(number); }
  bool number_unsigned(uint64_t number) { return add(number); }
  bool number_float(double number, const std::string& digits) {
    if (digits.find_first_of(".eE") == std::string::npos) {
      fail(limits_.kind, "{}: expected integers of at most 64 bits, got {}.", limits_.name,
           excerpt(digits));
    }
    return add(number);
  }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(binary_t&) { return false; }  // does not occur in text

  bool start_object(size_t) { return open(JsonValue::Members{}); }
  bool start_array(size_t) { return open(JsonValue::Items{}); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() {
    const auto& members = std::get<JsonValue::Members>(stack_.back()->data_);
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) {
      fail(limits_.kind, "{}: expected every key once, got {} twice.", limits_.name,
           excerpt(*twin));
    }
    stack_.pop_back();
    return true;
  }
  bool end_array() {
    stack_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    fail(limits_.kind, "{}: expected valid JSON in UTF-8, got an error at byte {}.", limits_.name,
         position);
  }

 private:
  template <class Data>
  bool add(Data data) {
    place(std::move(data));
    return true;
  }

  template <class Data>
  bool open(Data data) {
    if (stack_.size() >= static_cast<size_t>(limits_.max_depth)) {
      fail(limits_.kind, "{}: expected at most {} nested objects and arrays.", limits_.name,
           limits_.max_depth);
    }
    stack_.push_back(place(std::move(data)));
    return true;
  }

  // Parents are never touched while a child is open, so pointers on the stack stay valid.
  template <class Data>
  JsonValue* place(Data data) {
    if (++values_ > limits_.max_values) {
      fail(limits_.kind, "{}: expected at most {} values.", limits_.name, limits_.max_values);
    }
    JsonValue value;
    value.data_ = std::move(data);
    value.context_ = context_;
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (auto* members = std::get_if<JsonValue::Members>(&stack_.back()->data_)) {
      value.key_ = key_;
      return &members->emplace_back(std::move(key_), std::move(value)).second;
    }
    return &std::get<JsonValue::Items>(stack_.back()->data_).emplace_back(std::move(value));
  }

  const JsonLimits& limits_;
  std::shared_ptr<const JsonValue::Context> context_;
  JsonValue root_;
  std::vector<JsonValue*> stack_;
  std::string key_;
  size_t values_ = 0;
};

JsonValue JsonValue::parse(std::string_view text, const JsonLimits& limits) {
  // nlohmann-json takes a NUL for the end of the text and would ignore what follows it.
  if (text.find('\0') != std::string_view::npos) {
    fail(limits.kind, "{}: expected valid JSON in UTF-8, got an error at byte {}.", limits.name,
         text.find('\0') + 1);
  }
  JsonTreeBuilder builder(limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take_root();
}

void JsonValue::fail_type(std::string_view expected) const {
  static constexpr const char* types[] = {"null",     "true or false", "an integer", "an integer",
                                          "a number", "text",          "an array",   "an object"};
  fail_expected(expected, types[data_.index()]);
}

void JsonValue::fail_expected(std::string_view expected, std::string_view got) const {
  const std::string what = key_.empty() ? "" : fmt::format("{}: ", key_);
  fail(context_ ? context_->kind : ErrorKind::internal, "{}: {}expected {}, got {}.",
       context_ ? context_->name : "JSON", what, expected, got);
}

template <class T>
T JsonValue::in_range(T number, T low, T high) const {
  if (number >= low && number <= high) return number;
  fail_expected(fmt::format("{} to {}", low, high), fmt::format("{}", number));
}

bool JsonValue::as_bool() const {
  if (const auto* flag = std::get_if<bool>(&data_)) return *flag;
  fail_type("true or false");
}

int64_t JsonValue::as_int(int64_t low, int64_t high) const {
  if (const auto* number = std::get_if<int64_t>(&data_)) return in_range(*number, low, high);
  if (const auto* number = std::get_if<uint64_t>(&data_)) {
    if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return in_range(static_cast<int64_t>(*number), low, high);
    }
  }
  fail_type("an integer below 2^63");
}

uint64_t JsonValue::as_uint() const {
  if (const auto* number = std::get_if<uint64_t>(&data_)) return *number;
  fail_type("an integer of 0 or more");
}

double JsonValue::as_double(double low, double high) const {
  const auto checked = [&](auto number) {
    return in_range(static_cast<double>(number), low, high);
  };
  if (const auto* number = std::get_if<double>(&data_)) return checked(*number);
  if (const auto* number = std::get_if<int64_t>(&data_)) return checked(*number);
  if (const auto* number = std::get_if<uint64_t>(&data_)) return checked(*number);
  fail_type("a number");
}

const std::string& JsonValue::as_string() const {
  if (const auto* text = std::get_if<std::string>(&data_)) return *text;
  fail_type("text");
}

const JsonValue::Items& JsonValue::items() const {
  if (const auto* items = std::get_if<Items>(&data_)) return *items;
  fail_type("an array");
}

std::vector<std::string> JsonValue::as_strings() const {
  std::vector<std::string> texts;
  for (const JsonValue& item : items()) texts.push_back(item.as_string());
  return texts;
}

const JsonValue::Members& JsonValue::members() const {
  if (const auto* members = std::get_if<Members>(&data_)) return *members;
  fail_type("an object");
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const auto& member : members()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

const JsonValue& JsonValue::at(std::string_view key) const {
  if (const JsonValue* value = find(key)) return *value;
  fail_type(fmt::format("an object with the key '{}'", key));
}

}  // namespace whisker
