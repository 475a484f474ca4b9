// Every key as Markdown tables for docs/reference/configuration.md, one per section, and as a list
// for shell completion.
#include "train/config/config.h"

#include <charconv>
#include <cmath>

namespace whisker {
namespace {

std::string number(double value) {
  if (std::abs(value) < 1e6 && value == std::floor(value)) return fmt::format("{:.0f}", value);
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string code(std::string_view text) {
  return fmt::format("`{}`", text);
}

// "0 to 1", "above 0", "0 to below 1", "at least 0", "".
std::string range(const FieldInfo& info) {
  const bool low = std::isfinite(info.low), high = std::isfinite(info.high);
  std::string text;
  if (low) text = (info.exclusive_low ? "above " : high ? "" : "at least ") + number(info.low);
  if (high) text += (low ? " to " : "up to ") + std::string(info.exclusive_high ? "below " : "");
  return high ? text + number(info.high) : text;
}

class ReferenceWriter final : public FieldVisitor {
 public:
  std::vector<ConfigKey> keys;

  std::string text() const { return fmt::format("{}", fmt::join(tables_, "\n")); }

  void field(const char* key, bool& value, const FieldInfo& info) override {
    row(key, value ? "`true`" : "`false`", "true, false", info, {"true", "false"});
  }
  void field(const char* key, int64_t& value, const FieldInfo& info) override {
    row(key, code(fmt::format("{}", value)), join("integer", range(info)), info);
  }
  void field(const char* key, double& value, const FieldInfo& info) override {
    row(key, code(number(value)), join("number", range(info)), info);
  }
  void field(const char* key, std::string& value, const FieldInfo& info) override {
    row(key, value.empty() ? "empty" : code(value), "text", info);
    if (!keys.empty() && keys.back().path == prefix_ + key) keys.back().is_text = true;
  }
  void field(const char* key, AutoInt& value, const FieldInfo& info) override {
    row(key, value.value ? code(fmt::format("{}", *value.value)) : "`auto`",
        join("auto or integer", range(info)), info, {"auto"});
  }
  void field(const char* key, EnumField value, const FieldInfo& info) override {
    row(key, code(value.names()[value.get()]), fmt::format("{}", fmt::join(value.names(), ", ")),
        info, {value.names().begin(), value.names().end()});
  }
  void field(const char* key, std::vector<double>& value, const FieldInfo& info) override {
    std::vector<std::string> items;
    for (const double item : value) items.push_back(number(item));
    std::string kind = "list of numbers";
    if (info.least == info.most) {
      kind = fmt::format("list of {} numbers", info.least);
    } else if (info.most < 100) {
      kind = fmt::format("list of {} to {} numbers", info.least, info.most);
    }
    row(key, code(fmt::format("[{}]", fmt::join(items, ", "))), join(kind, range(info)), info);
  }
  void field(const char* key, std::vector<std::string>& value, const FieldInfo& info) override {
    row(key, code(fmt::format("[{}]", fmt::join(value, ", "))), "list of texts", info);
  }
  void node(const char* key, YamlNode&, const FieldInfo& info) override {
    row(key, "required", "preset or layers", info);
  }
  void section(const char* key, const char* about,
               const std::function<void(FieldVisitor&)>& visit_section) override {
    within(std::string(key), about, [&] { visit_section(*this); });
  }
  void list(const char* key, const char* about, size_t, const std::function<void(size_t)>& resize,
            const std::function<void(FieldVisitor&, size_t)>& visit_item) override {
    resize(1);  // one default item to describe
    within(std::string(key) + "[]", about, [&] { visit_item(*this, 0); });
    resize(0);
  }

 private:
  static std::string join(std::string_view kind, const std::string& bounds) {
    return bounds.empty() ? std::string(kind) : fmt::format("{} {}", kind, bounds);
  }
  static std::string begin_table(const std::string& title) {
    return fmt::format("## {}\n\n| key | default | values | meaning |\n|---|---|---|---|\n", title);
  }
  void row(const char* key, const std::string& fallback, const std::string& values,
           const FieldInfo& info, std::vector<std::string> listed = {}) {
    const std::string path = prefix_ + key;
    const bool in_list = path.find("[]") != std::string::npos;
    if (!in_list) keys.push_back({.path = path, .values = std::move(listed)});
    tables_[table_] +=
        fmt::format("| `{}`{} | {} | {} | {} |\n", path, may_change_on_resume(path) ? " *" : "",
                    fallback, values, info.about);
  }
  // A section, also one inside another, gets a table of its own.
  template <class Visit>
  void within(const std::string& name, const char* about, Visit visit) {
    const std::string outer_prefix = prefix_;
    const size_t outer_table = table_;
    tables_.push_back(begin_table(fmt::format("`{}{}`: {}", prefix_, name, about)));
    table_ = tables_.size() - 1;
    prefix_ += name + ".";
    visit();
    prefix_ = outer_prefix;
    table_ = outer_table;
  }

  std::string prefix_;
  std::vector<std::string> tables_ = {begin_table("The run")};
  size_t table_ = 0;
};

}  // namespace

std::string config_reference() {
  ReferenceWriter writer;
  Config defaults;
  visit_fields(writer, defaults);
  return writer.text();
}

std::vector<ConfigKey> config_keys() {
  ReferenceWriter writer;
  Config defaults;
  visit_fields(writer, defaults);
  return std::move(writer.keys);
}

}  // namespace whisker
