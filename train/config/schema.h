// One description of the configuration serves reading, printing, the JSON Schema and the tests: a
// FieldVisitor walks every field of a struct with its key, its range and its one-line meaning.
#pragma once

#include "core/io/yaml.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// A field's meaning and limits.
struct FieldInfo {
  const char* about = "";  ///< one line
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool exclusive_low = false;  ///< low itself is not allowed
  bool exclusive_high = false;
  size_t least = 0;  ///< shortest list
  size_t most = std::numeric_limits<size_t>::max();
};

/// A value out of a fixed list of names.
class EnumField {
 public:
  template <class E>
  EnumField(E& value, std::span<const std::string_view> names)
      : names_(names),
        get_([&value] { return static_cast<size_t>(value); }),
        set_([&value](size_t i) { value = static_cast<E>(i); }) {}
  std::span<const std::string_view> names() const { return names_; }
  size_t get() const { return get_(); }
  void set(size_t index) const { set_(index); }

 private:
  std::span<const std::string_view> names_;
  std::function<size_t()> get_;
  std::function<void(size_t)> set_;
};

/// An integer that may also be the word `auto` (stored as nullopt).
struct AutoInt {
  std::optional<int64_t> value;
};

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void field(const char* key, bool& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, int64_t& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, double& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, std::string& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, AutoInt& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, EnumField value, const FieldInfo& info) = 0;
  virtual void field(const char* key, std::vector<double>& value, const FieldInfo& info) = 0;
  virtual void field(const char* key, std::vector<std::string>& value, const FieldInfo& info) = 0;
  /// A part of the configuration with a grammar of its own (the model).
  virtual void node(const char* key, YamlNode& value, const FieldInfo& info) = 0;
  /// A nested map; `visit_fields` visits its fields.
  virtual void section(const char* key, const char* about,
                       const std::function<void(FieldVisitor&)>& visit_fields) = 0;
  /// A list of maps; `visit_item(visitor, i)` visits the fields of item i after resize(count).
  virtual void list(const char* key, const char* about, size_t size,
                    const std::function<void(size_t)>& resize,
                    const std::function<void(FieldVisitor&, size_t)>& visit_item) = 0;
};

}  // namespace whisker
