// Choosing and checking names.
#include "layers/builder/layer_names.h"

#include "layers/module.h"

namespace whisker {
namespace {

constexpr size_t longest_name = 200;

std::string given_name(LayerArguments& arguments, int64_t repeat_index) {
  const YamlNode* node = arguments.find({"name"});
  if (!node) return {};
  std::string name = node->as_string();
  for (size_t at = name.find("{i}"); at != std::string::npos; at = name.find("{i}")) {
    if (repeat_index < 0) {
      fail(ErrorKind::usage, "{}: {{i}} counts inside a repeat only", place_of(*node));
    }
    name.replace(at, 3, std::to_string(repeat_index));
  }
  if (name.empty() || name.starts_with('.') || name.ends_with('.') ||
      name.find("..") != std::string::npos || name.size() > longest_name) {
    fail(ErrorKind::usage, "{}: expected a name of words joined by dots, got '{}'", place_of(*node),
         name);
  }
  return name;
}

}  // namespace

std::string LayerNames::choose(LayerArguments& arguments, const std::string& type,
                               int64_t repeat_index, bool may_repeat) {
  std::string name = given_name(arguments, repeat_index);
  if (name.empty()) {
    do {
      const int number = numbers_[type]++;
      name = number == 0 ? type : fmt::format("{}_{}", type, number);
    } while (taken_.contains(name));
  }
  if (may_repeat && taken_.contains(name)) {
    const std::string given = name;
    for (int number = 1; taken_.contains(name); ++number) {
      name = fmt::format("{}_{}", given, number);
    }
  }
  if (!taken_.insert(name).second) {
    fail(ErrorKind::usage, "{}: the name '{}' is taken by a layer before; choose another",
         arguments.place(), name);
  }
  return name;
}

std::string LayerNames::full(const std::string& name) const {
  return join_path(prefix_, name);
}

}  // namespace whisker
