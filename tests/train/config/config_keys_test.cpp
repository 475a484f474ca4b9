// Every key of the configuration, walked by a visitor, refuses a slip of its name, a duplicate
// and values of the wrong kind or range, at the right place; and the schema has it.
#include "config_errors.h"
#include "core/io/json.h"
#include "train/config/config.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// One key: where it lives and two values it must refuse.
struct Key {
  std::string section;  // "", "data", "train.early_stopping", "optimizer.groups[0]"
  std::string name;
  std::string good;
  std::vector<std::string> bad = {};
  std::string path() const { return section.empty() ? name : section + "." + name; }
};

/// Lists every key with a value it takes and values it must not take.
class KeyLister final : public FieldVisitor {
 public:
  explicit KeyLister(std::vector<Key>& keys, std::string section = "")
      : keys_(keys), section_(std::move(section)) {}

  void field(const char* key, bool& value, const FieldInfo&) override {
    add(key, value ? "true" : "false", {"2", "[true]"});
  }
  void field(const char* key, int64_t& value, const FieldInfo& info) override {
    add(key, fmt::format("{}", value), numbers(info, true));
  }
  void field(const char* key, double& value, const FieldInfo& info) override {
    add(key, fmt::format("{}", value), numbers(info, false));
  }
  void field(const char* key, std::string& value, const FieldInfo&) override {
    add(key, fmt::format("\"{}\"", value), {"[a, b]", "{a: b}"});
  }
  void field(const char* key, AutoInt&, const FieldInfo& info) override {
    add(key, "auto", numbers(info, true));
  }
  void field(const char* key, EnumField value, const FieldInfo&) override {
    add(key, std::string(value.names()[value.get()]), {"no_such_thing", "[1]"});
  }
  void field(const char* key, std::vector<double>& value, const FieldInfo& info) override {
    std::vector<std::string> bad = {"[x]"};
    for (const std::string& item : numbers(info, false)) bad.push_back(fmt::format("[{}]", item));
    if (info.least > 0) bad.push_back("[]");
    if (info.most < 100) bad.emplace_back("[1, 1, 1, 1, 1]");
    add(key, fmt::format("[{}]", fmt::join(value, ", ")), bad);
  }
  void field(const char* key, std::vector<std::string>&, const FieldInfo&) override {
    add(key, "[]", {"word", "[[a]]"});
  }
  void node(const char* key, YamlNode&, const FieldInfo&) override { add(key, "chollet", {}); }
  void section(const char* key, const char*,
               const std::function<void(FieldVisitor&)>& visit_section) override {
    KeyLister inner(keys_, section_.empty() ? key : section_ + "." + key);
    visit_section(inner);
  }
  void list(const char* key, const char*, size_t, const std::function<void(size_t)>& resize,
            const std::function<void(FieldVisitor&, size_t)>& visit_item) override {
    resize(1);
    KeyLister inner(keys_, fmt::format("{}.{}[0]", section_, key));
    visit_item(inner, 0);
    resize(0);
  }

 private:
  void add(const char* key, std::string good, std::vector<std::string> bad) {
    keys_.push_back(
        {.section = section_, .name = key, .good = std::move(good), .bad = std::move(bad)});
  }
  static std::vector<std::string> numbers(const FieldInfo& info, bool whole) {
    std::vector<std::string> bad = {"fast", ".nan"};
    if (whole) bad.push_back("1.5");
    if (std::isfinite(info.low)) {
      bad.push_back(fmt::format("{}", info.low - 1));
      if (info.exclusive_low) bad.push_back(fmt::format("{}", info.low));
    }
    if (std::isfinite(info.high)) {
      bad.push_back(fmt::format("{}", whole ? info.high + 2 : info.high * 1.01 + 1));
      if (info.exclusive_high) bad.push_back(fmt::format("{}", info.high));
    }
    return bad;
  }

  std::vector<Key>& keys_;
  std::string section_;
};

std::vector<Key> every_key() {
  std::vector<Key> keys;
  KeyLister lister(keys);
  Config config;
  visit_fields(lister, config);
  return keys;
}

/// YAML that holds `lines` ("name: value") in `section`, and the indentation they got. The first of
/// them is in the last but `lines.size() - 1`th line.
std::string yaml_with(const std::string& section, const std::vector<std::string>& lines) {
  std::string text = section.empty() && lines[0].starts_with("mode") ? "" : "model: chollet\n";
  std::string indent;
  std::string rest = section;
  bool item = false;
  while (!rest.empty()) {
    std::string part = rest.substr(0, rest.find('.'));
    rest = rest.size() > part.size() ? rest.substr(part.size() + 1) : "";
    item = part.ends_with("[0]");
    if (item) part.resize(part.size() - 3);
    text += indent + part + ":\n";
    indent += "  ";
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    text += indent + (item ? (i == 0 ? "- " : "  ") : "") + lines[i] + "\n";
  }
  return text;
}

int line_count(const std::string& text) {
  return static_cast<int>(std::ranges::count(text, '\n'));
}

TEST(ConfigKeys, GoodValuesAreTaken) {
  for (const Key& key : every_key()) {
    const std::string text = yaml_with(key.section, {key.name + ": " + key.good});
    EXPECT_EQ(error_of(text), "no error") << text;
  }
}

TEST(ConfigKeys, ASlipOfEveryKeyIsRefusedWithItsName) {
  const std::vector<Key> keys = every_key();
  int tried = 0, named = 0;
  for (const Key& key : keys) {
    std::string slip = key.name;
    slip.insert(slip.size() / 2, 1, slip[slip.size() / 2]);  // a letter twice
    const std::string text = yaml_with(key.section, {slip + ": " + key.good});
    const std::string error = error_of(text);
    const std::string path = key.section.empty() ? slip : key.section + "." + slip;
    EXPECT_THAT(error, HasSubstr("unknown key")) << text;
    EXPECT_THAT(error, StartsWith(fmt::format("test.yaml:{}:", line_count(text)))) << text;
    EXPECT_THAT(error, HasSubstr(path + ": ")) << text;
    named += error.find("Did you mean '" + key.name + "'?") != std::string::npos;
    if (key.name.size() > 3) {
      EXPECT_THAT(error, HasSubstr("'" + key.name + "'")) << text;
    }
    ++tried;
  }
  fmt::print("slips refused: {} of {}, the right name offered for {}\n", tried, keys.size(), named);
}

TEST(ConfigKeys, EveryKeyIsRefusedTwice) {
  int tried = 0;
  for (const Key& key : every_key()) {
    const std::string line = key.name + ": " + key.good;
    const std::string text = yaml_with(key.section, {line, line});
    EXPECT_THAT(error_of(text), StartsWith(fmt::format("test.yaml:{}:", line_count(text)))) << text;
    EXPECT_THAT(error_of(text), HasSubstr(key.name)) << text;
    ++tried;
  }
  fmt::print("duplicates refused: {}\n", tried);
}

TEST(ConfigKeys, EveryKeyRefusesWrongKindsAndRanges) {
  int tried = 0;
  for (const Key& key : every_key()) {
    if (key.name != "model" || !key.section.empty()) {
      EXPECT_GE(key.bad.size(), 2U) << key.path();
    }
    for (const std::string& value : key.bad) {
      const std::string text = yaml_with(key.section, {key.name + ": " + value});
      const std::string error = error_of(text);
      EXPECT_THAT(error, StartsWith(fmt::format("test.yaml:{}:", line_count(text)))) << text;
      EXPECT_THAT(error, HasSubstr(key.path())) << text;
      EXPECT_THAT(error, HasSubstr(": expected ")) << text;
      ++tried;
    }
  }
  fmt::print("bad values refused: {}\n", tried);
}

TEST(ConfigKeys, AreAllInTheSchema) {
  const JsonValue schema = JsonValue::parse(config_schema(), {.name = "schema", .max_depth = 32});
  int found = 0;
  for (const Key& key : every_key()) {
    const JsonValue* node = &schema;
    std::string rest = key.path();
    while (node && !rest.empty()) {
      std::string part = rest.substr(0, rest.find('.'));
      rest = rest.size() > part.size() ? rest.substr(part.size() + 1) : "";
      const bool item = part.ends_with("[0]");
      if (item) part.resize(part.size() - 3);
      EXPECT_FALSE(node->at("additionalProperties").as_bool());
      node = node->at("properties").find(part);
      if (node && item) node = &node->at("items");
    }
    ASSERT_NE(node, nullptr) << key.path();
    EXPECT_GT(node->at("description").as_string().size(), 3U) << key.path();
    ++found;
  }
  fmt::print("keys in the schema: {}\n", found);
}

}  // namespace
}  // namespace whisker
