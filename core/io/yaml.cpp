// The tree itself: positions, paths, lookup, overrides and merging.
#include "core/io/yaml.h"

#include "core/io/text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace whisker {
namespace {

// One step of a dotted path: a key or an index.
struct Step {
  std::string key;
  std::optional<size_t> index;
};

// Splits "model.layers[2].'a.b'" as path() writes it; throws usage for anything else.
std::vector<Step> split_path(std::string_view dotted) {
  const auto refuse = [&] {
    fail(ErrorKind::usage, "{}: expected a key path such as model.layers[2].filters.",
         excerpt(dotted));
  };
  std::vector<Step> steps;
  std::string_view rest = dotted;
  while (!rest.empty()) {
    if (rest.front() == '[') {
      size_t index = 0;
      const auto result = std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
      const auto used = static_cast<size_t>(result.ptr - rest.data());
      if (result.ec != std::errc() || used >= rest.size() || rest[used] != ']') refuse();
      steps.push_back({"", index});
      rest.remove_prefix(used + 1);
    } else {
      if (!steps.empty()) {
        if (rest.front() != '.') refuse();
        rest.remove_prefix(1);
      }
      const bool quoted = rest.starts_with('\'');
      if (quoted) rest.remove_prefix(1);
      const size_t end = std::min(quoted ? rest.find('\'') : rest.find_first_of(".["), rest.size());
      if (end == 0 || (quoted && end == rest.size())) refuse();
      steps.push_back({std::string(rest.substr(0, end)), std::nullopt});
      rest.remove_prefix(quoted ? end + 1 : end);
    }
  }
  if (steps.empty()) refuse();
  return steps;
}

}  // namespace

std::string YamlMark::str() const {
  const std::string name = source ? *source : "built-in configuration";
  return line == 0 ? name : fmt::format("{}:{}:{}", name, line, column);
}

std::string YamlNode::path() const {
  std::vector<const PathLink*> links;
  for (const PathLink* link = path_.get(); link != nullptr; link = link->parent.get()) {
    links.push_back(link);
  }
  std::string path;
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    const std::string& key = (*link)->key;
    if (!(*link)->is_key) {
      path += fmt::format("[{}]", (*link)->index);
      continue;
    }
    if (!path.empty()) path += '.';
    path += key.empty() || key.find_first_of(".['= ") != std::string::npos ? excerpt(key) : key;
  }
  return path;
}

std::string YamlNode::where() const {
  const std::string dotted = path();
  return dotted.empty() ? mark_.str() : fmt::format("{}: {}", mark_.str(), dotted);
}

std::string YamlNode::description() const {
  switch (kind_) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return excerpt(text_);
    case Kind::sequence:
      return "a list";
    case Kind::map:
      return "a map";
  }
  return "";
}

YamlNode YamlNode::with_words(const std::map<std::string, std::string>& words) const {
  YamlNode copy = *this;
  for (const auto& [word, text] : words) {
    const std::string marked = "{" + word + "}";
    for (size_t at = copy.text_.find(marked); at != std::string::npos;
         at = copy.text_.find(marked, at + text.size())) {
      copy.text_.replace(at, marked.size(), text);
      copy.quoted_ = false;  // YAML wants the quotes for the brace
    }
  }
  for (YamlNode& item : copy.items_) item = item.with_words(words);
  return copy;
}

void YamlNode::fail_expected(std::string_view expected, std::string_view remedy) const {
  fail(ErrorKind::usage, "{}: expected {}, got {}.{}{}", where(), expected, description(),
       remedy.empty() ? "" : " ", remedy);
}

void YamlNode::fail_at_key(size_t index, std::string_view message) const {
  fail(ErrorKind::usage, "{}: {}: {}", key_marks_[index].str(), items_[index].path(), message);
}

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  return found == keys_.end() ? nullptr : &items_[static_cast<size_t>(found - keys_.begin())];
}

const YamlNode* YamlNode::find_path(std::string_view dotted) const {
  const YamlNode* node = this;
  for (const Step& step : split_path(dotted)) {
    if (step.index) {
      node =
          node->is_sequence() && *step.index < node->size() ? &node->items_[*step.index] : nullptr;
    } else {
      node = node->find(step.key);
    }
    if (node == nullptr) return nullptr;
  }
  return node;
}

void YamlNode::adopt(std::shared_ptr<const PathLink> path) {
  path_ = std::move(path);
  for (size_t i = 0; i < items_.size(); ++i) {
    items_[i].adopt(
        std::make_shared<const PathLink>(PathLink{path_, is_map() ? keys_[i] : "", i, is_map()}));
  }
}

YamlNode& YamlNode::child_for_key(std::string_view key, const YamlMark& mark) {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  const auto index = static_cast<size_t>(found - keys_.begin());
  if (found == keys_.end()) {
    keys_.emplace_back(key);
    key_marks_.push_back(mark);
    YamlNode& child = items_.emplace_back();
    child.mark_ = mark;
    child.path_ = std::make_shared<const PathLink>(PathLink{path_, std::string(key), index, true});
  }
  return items_[index];
}

void YamlNode::set(std::string_view dotted, YamlNode value) {
  YamlNode* node = this;
  for (const Step& step : split_path(dotted)) {
    if (step.index) {
      if (!node->is_sequence() || *step.index >= node->size()) {
        fail(ErrorKind::usage, "{}: {}: expected an index of an existing list, got [{}] in {}.",
             value.mark_.str(), dotted, *step.index,
             node->is_sequence() ? fmt::format("a list of {}", node->size()) : node->description());
      }
      node = &node->items_[*step.index];
      continue;
    }
    if (node->is_null()) node->kind_ = Kind::map;
    if (!node->is_map()) {
      if (node->path().empty()) {
        fail(ErrorKind::usage, "{}: expected a map of keys to set {} in, got {}.",
             node->mark_.str(), excerpt(dotted), node->description());
      }
      fail(ErrorKind::usage, "{}: {}: expected a map to hold '{}', {} is {}.", value.mark_.str(),
           dotted, step.key, node->path(), node->description());
    }
    node = &node->child_for_key(step.key, value.mark_);
  }
  const std::shared_ptr<const PathLink> path = node->path_;
  *node = std::move(value);
  node->adopt(path);
}

void YamlNode::set_override(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail(ErrorKind::usage, "command line: expected section.key=value, got {}.",
         excerpt(assignment));
  }
  const std::string_view dotted = assignment.substr(0, equals);
  YamlNode value;
  try {
    value = parse(assignment.substr(equals + 1), "command line");
  } catch (const Error& error) {
    fail(ErrorKind::usage, "{} In the override of {}.", error.what(), excerpt(dotted));
  }
  const auto forget_lines = [](auto&& self, YamlNode& node) -> void {
    node.mark_.line = node.mark_.column = 0;
    for (YamlMark& mark : node.key_marks_) mark.line = mark.column = 0;
    for (YamlNode& item : node.items_) self(self, item);
  };
  forget_lines(forget_lines, value);
  set(dotted, std::move(value));
}

void YamlNode::merge(const YamlNode& over) {
  if (!is_map() || !over.is_map()) {
    const std::shared_ptr<const PathLink> path = path_;
    YamlNode copy = over;
    *this = std::move(copy);
    adopt(path);
    return;
  }
  for (size_t i = 0; i < over.size(); ++i) {
    child_for_key(over.keys_[i], over.key_marks_[i]).merge(over.items_[i]);
  }
}

bool YamlNode::operator==(const YamlNode& other) const {
  return kind_ == other.kind_ && quoted_ == other.quoted_ && text_ == other.text_ &&
         keys_ == other.keys_ && items_ == other.items_;
}

}  // namespace whisker
