// The writer half of json.h: std::to_chars for numbers, RFC 8259 section 7 for escapes, which
// every control of utf8.h gets: JSON goes to terminals as well.
#include "core/io/json.h"
#include "core/io/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace whisker {

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  text_ += bracket;
  open_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket, char closing) {
  if (open_.empty() || open_.back() != bracket || after_key_) {
    fail(ErrorKind::internal, "JsonWriter: '{}' closes nothing after {}", closing, text_);
  }
  open_.pop_back();
  text_ += closing;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  if (open_.empty() || open_.back() != '{' || after_key_) {
    fail(ErrorKind::internal, "JsonWriter: key '{}' outside an object", name);
  }
  if (!first_) text_ += ',';
  append_quoted(name);
  text_ += ':';
  first_ = false;
  after_key_ = true;
  return *this;
}

void JsonWriter::before_value() {
  if (open_.empty() ? !text_.empty() : (open_.back() == '{' && !after_key_)) {
    fail(ErrorKind::internal, "JsonWriter: a value without its place after {}", text_);
  }
  if (!open_.empty() && open_.back() == '[' && !first_) text_ += ',';
  first_ = false;
  after_key_ = false;
}

JsonWriter& JsonWriter::null() {
  before_value();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  before_value();
  text_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t number) {
  before_value();
  text_ += fmt::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::integer(uint64_t number) {
  before_value();
  text_ += fmt::to_string(number);
  return *this;
}

template <class T>
JsonWriter& JsonWriter::floating(T number) {
  if (!std::isfinite(number)) {
    if (non_finite_ == NonFinite::null) return null();
    fail(ErrorKind::internal, "JsonWriter: expected a finite number, got {} after {}", number,
         text_);
  }
  before_value();
  std::array<char, 32> digits;
  char* const end = digits.data() + digits.size();
  auto result = std::to_chars(digits.data(), end, number);
  if (std::abs(number) >= static_cast<T>(1e15) &&
      std::find(digits.data(), result.ptr, 'e') == result.ptr) {
    // Readers take long digits without an exponent for an integer, and perhaps a too large one.
    result = std::to_chars(digits.data(), end, number, std::chars_format::scientific);
  }
  text_.append(digits.data(), result.ptr);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  return floating(number);
}
JsonWriter& JsonWriter::value(float number) {
  return floating(number);
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_quoted(text);
  return *this;
}

void JsonWriter::append_quoted(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    const char c = text.front();
    if (length == 0) {
      text_ += "\xef\xbf\xbd";  // U+FFFD, replacement character
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (is_control(code_point(text.substr(0, length)))) {
      text_ += fmt::format("\\u{:04x}", uint32_t{code_point(text.substr(0, length))});
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

const std::string& JsonWriter::str() const {
  if (!open_.empty() || text_.empty()) {
    fail(ErrorKind::internal, "JsonWriter: unfinished text {}", text_);
  }
  return text_;
}

}  // namespace whisker
