// Rows to and from JSON: see Note [Autotune table].
#include "core/backend/autotune_table.h"

#include "core/io/json.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace whisker {

std::optional<std::string> AutotuneTable::find(std::string_view kind,
                                               const std::string& request) const {
  const auto rows = rows_.find(kind);
  if (rows == rows_.end()) return std::nullopt;
  const auto found = rows->second.find(request);
  return found == rows->second.end() ? std::nullopt : std::optional(found->second);
}

void AutotuneTable::set(const std::string& kind, const std::string& request,
                        std::string algorithm) {
  rows_[kind][request] = std::move(algorithm);
}

std::string AutotuneTable::text() const {
  if (rows_.empty()) return "";
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : environment_()) {
    std::visit([&](const auto& known) { json.field(name, known); }, value);
  }
  for (const std::string& kind : kinds_) {
    json.key(kind).begin_object();
    if (const auto rows = rows_.find(kind); rows != rows_.end()) {
      for (const auto& [request, algorithm] : rows->second) json.field(request, algorithm);
    }
    json.end_object();
  }
  json.end_object();
  return json.str();
}

void AutotuneTable::add(std::string_view text) {
  if (text.empty()) return;
  const JsonValue json =
      JsonValue::parse(text, {.name = "autotune table", .kind = ErrorKind::checkpoint});
  json.at(kinds_.front()).members();  // every table has the first kind
  bool same = true;
  for (const auto& [name, value] : environment_()) {
    const JsonValue* const stored = json.find(name);
    if (!stored) return;  // another backend's, or of an earlier version
    const auto* const number = std::get_if<int64_t>(&value);
    same &=
        number ? stored->as_int() == *number : stored->as_string() == std::get<std::string>(value);
  }
  if (!same) return;
  auto all = rows_;
  for (const std::string& kind : kinds_) {
    for (const auto& [request, algorithm] : json.at(kind).members()) {
      const std::string& name = algorithm.as_string();
      if (!names_.empty() && std::ranges::find(names_, name) == names_.end()) {
        fail(ErrorKind::checkpoint, "autotune table: {}: expected {}, got '{}'", request,
             fmt::join(names_, " or "), name);
      }
      all[kind][request] = name;
    }
  }
  rows_ = std::move(all);
}

}  // namespace whisker
