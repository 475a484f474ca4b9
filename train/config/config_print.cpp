// The configuration as YAML that reads back, and its JSON Schema.
#include "core/io/json.h"
#include "train/config/config.h"

#include <charconv>
#include <cmath>

namespace whisker {
namespace {

// Shortest text that reads back as the same double.
std::string shortest(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// A scalar's YAML text, quoted where a plain one would read back as something else.
YamlNode scalar(const std::string& text, bool plain) {
  if (plain) return YamlNode::parse(text, "config");
  return YamlNode::parse(JsonWriter().value(text).str(), "config");  // JSON strings are YAML
}

class ConfigPrinter final : public FieldVisitor {
 public:
  ConfigPrinter(YamlNode& root, const std::set<std::string>& left_out, std::string prefix = "")
      : root_(root), left_out_(left_out), prefix_(std::move(prefix)) {}

  void field(const char* key, bool& value, const FieldInfo&) override {
    put(key, scalar(value ? "true" : "false", true));
  }
  void field(const char* key, int64_t& value, const FieldInfo&) override {
    put(key, scalar(fmt::format("{}", value), true));
  }
  void field(const char* key, double& value, const FieldInfo&) override {
    put(key, scalar(shortest(value), true));
  }
  void field(const char* key, std::string& value, const FieldInfo&) override {
    put(key, text(value));
  }
  void field(const char* key, AutoInt& value, const FieldInfo&) override {
    put(key, scalar(value.value ? fmt::format("{}", *value.value) : "auto", true));
  }
  void field(const char* key, EnumField value, const FieldInfo&) override {
    put(key, scalar(std::string(value.names()[value.get()]), true));
  }
  void field(const char* key, std::vector<double>& value, const FieldInfo&) override {
    std::vector<std::string> items;
    for (const double item : value) items.push_back(shortest(item));
    put(key, sequence(items));
  }
  void field(const char* key, std::vector<std::string>& value, const FieldInfo&) override {
    std::vector<std::string> items;
    for (const std::string& item : value) items.push_back(JsonWriter().value(item).str());
    put(key, sequence(items));
  }
  void node(const char* key, YamlNode& value, const FieldInfo&) override {
    if (!value.is_null()) put(key, value);
  }
  void section(const char* key, const char*,
               const std::function<void(FieldVisitor&)>& visit_section) override {
    ConfigPrinter printer(root_, left_out_, prefix_ + key + ".");
    visit_section(printer);
  }
  void list(const char* key, const char*, size_t size, const std::function<void(size_t)>&,
            const std::function<void(FieldVisitor&, size_t)>& visit_item) override {
    std::string text = "[";
    for (size_t i = 0; i < size; ++i) text += i ? ", {}" : "{}";
    put(key, YamlNode::parse(text + "]", "config"));
    for (size_t i = 0; i < size; ++i) {
      ConfigPrinter printer(root_, left_out_, fmt::format("{}{}[{}].", prefix_, key, i));
      visit_item(printer, i);
    }
  }

 private:
  static YamlNode text(const std::string& value) { return scalar(value, false); }
  static YamlNode sequence(const std::vector<std::string>& items) {
    return YamlNode::parse(fmt::format("[{}]", fmt::join(items, ", ")), "config");
  }
  void put(const char* key, YamlNode value) {
    if (!left_out_.contains(prefix_ + key)) root_.set(prefix_ + key, std::move(value));
  }

  YamlNode& root_;
  const std::set<std::string>& left_out_;
  std::string prefix_;
};

// https://json-schema.org/draft/2020-12, the keywords type, enum, minimum, items and so on.
class SchemaWriter final : public FieldVisitor {
 public:
  explicit SchemaWriter(JsonWriter& json) : json_(json) {}

  void field(const char* key, bool& value, const FieldInfo& info) override {
    begin(key, info.about).field("type", "boolean").field("default", value).end_object();
  }
  void field(const char* key, int64_t& value, const FieldInfo& info) override {
    begin(key, info.about).field("type", "integer");
    bounds(info);
    json_.field("default", value).end_object();
  }
  void field(const char* key, double& value, const FieldInfo& info) override {
    begin(key, info.about).field("type", "number");
    bounds(info);
    json_.field("default", value).end_object();
  }
  void field(const char* key, std::string& value, const FieldInfo& info) override {
    begin(key, info.about).field("type", "string").field("default", value).end_object();
  }
  void field(const char* key, AutoInt& value, const FieldInfo& info) override {
    begin(key, info.about).key("anyOf").begin_array().begin_object().field("const", "auto");
    json_.end_object().begin_object().field("type", "integer");
    bounds(info);
    json_.end_object().end_array();
    if (value.value) {
      json_.field("default", *value.value).end_object();
    } else {
      json_.field("default", "auto").end_object();
    }
  }
  void field(const char* key, EnumField value, const FieldInfo& info) override {
    begin(key, info.about).key("enum").begin_array();
    for (const std::string_view name : value.names()) json_.value(name);
    json_.end_array().field("default", value.names()[value.get()]).end_object();
  }
  void field(const char* key, std::vector<double>& value, const FieldInfo& info) override {
    begin_list(key, info);
    json_.key("items").begin_object().field("type", "number");
    bounds(info);
    json_.end_object().key("default").begin_array();
    for (const double item : value) json_.value(item);
    json_.end_array().end_object();
  }
  void field(const char* key, std::vector<std::string>&, const FieldInfo& info) override {
    begin_list(key, info);
    json_.key("items").begin_object().field("type", "string").end_object().end_object();
  }
  void node(const char* key, YamlNode&, const FieldInfo& info) override {
    begin(key, info.about).key("type").begin_array().value("string").value("object").end_array();
    json_.end_object();
  }
  void section(const char* key, const char* about,
               const std::function<void(FieldVisitor&)>& visit_section) override {
    begin(key, about);
    object([&] { visit_section(*this); });
    json_.end_object();
  }
  void list(const char* key, const char* about, size_t, const std::function<void(size_t)>& resize,
            const std::function<void(FieldVisitor&, size_t)>& visit_item) override {
    begin(key, about).field("type", "array").key("items").begin_object();
    resize(1);  // one default item to describe
    object([&] { visit_item(*this, 0); });
    resize(0);
    json_.end_object().end_object();
  }

  /// The keywords of a map: type, properties, and that nothing else is allowed.
  template <class Visit>
  void object(Visit visit_properties) {
    json_.field("type", "object").field("additionalProperties", false);
    json_.key("properties").begin_object();
    visit_properties();
    json_.end_object();
  }

 private:
  JsonWriter& begin(const char* key, const char* about) {
    return json_.key(key).begin_object().field("description", about);
  }
  void begin_list(const char* key, const FieldInfo& info) {
    begin(key, info.about).field("type", "array");
    if (info.least > 0) json_.field("minItems", info.least);
    if (info.most != std::numeric_limits<size_t>::max()) json_.field("maxItems", info.most);
  }
  void bounds(const FieldInfo& info) {
    if (std::isfinite(info.low)) {
      json_.field(info.exclusive_low ? "exclusiveMinimum" : "minimum", info.low);
    }
    if (std::isfinite(info.high)) {
      json_.field(info.exclusive_high ? "exclusiveMaximum" : "maximum", info.high);
    }
  }

  JsonWriter& json_;
};

}  // namespace

std::string print_config(Config config) {
  std::set<std::string> left_out;
  for (const std::string_view key : preprocess_keys) {
    if (!config.init.from.empty() && !config.given.contains(key)) left_out.emplace(key);
  }
  if (config.train.batch_size_per_gpu > 0) left_out.emplace("train.batch_size");
  YamlNode root;
  ConfigPrinter printer(root, left_out);
  visit_fields(printer, config);
  return root.emit();
}

std::string config_schema() {
  JsonWriter json;
  json.begin_object().field("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.field("title", "Whisker training configuration");
  SchemaWriter writer(json);
  Config defaults;
  writer.object([&] { visit_fields(writer, defaults); });
  json.key("required").begin_array().value("model").end_array();
  json.end_object();
  return json.str();
}

}  // namespace whisker
