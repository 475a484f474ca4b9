#include "train/model/hub_json.h"

#include "core/io/file.h"
#include "core/io/text.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr size_t most_json_bytes = 64 << 20;  // class names and their descriptions

template <class T>
std::string list_text(const std::vector<T>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace

HubJson::HubJson(const std::filesystem::path& path, std::string library)
    : name_(path.string()), library_(std::move(library)) {
  std::error_code error;
  exists_ = std::filesystem::exists(path, error);
  const std::string text =
      exists_ ? read_file(path, most_json_bytes, ErrorKind::checkpoint) : std::string("{}");
  json_ = JsonValue::parse(text, {.name = name_, .kind = ErrorKind::checkpoint});
  json_.members();  // throws for what is no object
}

HubJson::HubJson(const HubJson& outer, const JsonValue& inner)
    : name_(outer.name_), library_(outer.library_), exists_(true), json_(inner) {
  json_.members();
}

const JsonValue* HubJson::find(std::string_view key) const {
  const JsonValue* const found = json_.find(key);
  return found && !found->is_null() ? found : nullptr;
}

void HubJson::assume(const char* key, const std::string& value) {
  assumed_.push_back(fmt::format("{}={}", key, value));
}

int64_t HubJson::integer(const char* key, int64_t low, int64_t high, int64_t otherwise) {
  if (const JsonValue* const found = find(key)) return found->as_int(low, high);
  assume(key, fmt::to_string(otherwise));
  return otherwise;
}

double HubJson::number(const char* key, double low, double high, double otherwise) {
  if (const JsonValue* const found = find(key)) return found->as_double(low, high);
  assume(key, fmt::to_string(otherwise));
  return otherwise;
}

bool HubJson::flag(const char* key, bool otherwise) {
  if (const JsonValue* const found = find(key)) return found->as_bool();
  assume(key, fmt::to_string(otherwise));
  return otherwise;
}

std::string HubJson::text(const char* key, const char* otherwise) {
  if (const JsonValue* const found = find(key)) return found->as_string();
  assume(key, otherwise);
  return otherwise;
}

std::vector<int64_t> HubJson::integers(const char* key, std::vector<int64_t> otherwise) {
  const JsonValue* const found = find(key);
  if (!found) {
    assume(key, list_text(otherwise));
    return otherwise;
  }
  std::vector<int64_t> values;
  constexpr int64_t most = 1 << 20;
  for (const JsonValue& item : found->items()) values.push_back(item.as_int(1, most));
  return values;
}

std::vector<double> HubJson::channels(const char* key, std::vector<double> otherwise) {
  const JsonValue* const found = find(key);
  if (!found) {
    assume(key, list_text(otherwise));
    return otherwise;
  }
  if (!found->is_array()) return std::vector<double>(3, found->as_double());
  std::vector<double> values;
  for (const JsonValue& item : found->items()) values.push_back(item.as_double());
  if (values.size() == 1) values.resize(3, values[0]);
  if (values.size() != 3) refuse(key, "one number, or three", list_text(values));
  return values;
}

void HubJson::require(const char* key, bool fine, std::string_view expected) const {
  if (fine) return;
  const JsonValue* const found = find(key);
  refuse(key, expected, found ? shown(*found) : "none");
}

void HubJson::refuse(const char* key, std::string_view expected, std::string_view got) const {
  fail(ErrorKind::checkpoint, "{}: {}: expected {}, got {}", name_, key, expected, got);
}

std::string HubJson::note(std::string_view option) const {
  if (assumed_.empty()) return {};
  return fmt::format("{} {}: the defaults of {} are assumed: {}{}", printable(name_),
                     exists_ ? "does not say all" : "is not there", library_,
                     fmt::join(assumed_, ", "), option);
}

std::string shown(const JsonValue& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return excerpt(value.as_string());
  if (value.is_number()) return fmt::to_string(value.as_double());
  if (!value.is_array()) return value.is_object() ? "an object" : fmt::to_string(value.as_bool());
  std::vector<std::string> items;
  for (const JsonValue& item : value.items()) items.push_back(shown(item));
  return list_text(items);
}

}  // namespace whisker
