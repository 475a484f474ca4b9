// Small networks that `whisker study` shows by name, each an expression.
#pragma once

#include "apps/study/expression.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct BuiltinNetwork {
  std::string_view name;
  std::string_view shows;  ///< for --help and lists
  std::string_view formula;
  std::vector<NamedFormula> bindings;
};

std::span<const BuiltinNetwork> builtin_networks();
/// nullptr when there is none of this name.
const BuiltinNetwork* find_builtin_network(std::string_view name);
std::vector<std::string> builtin_network_names();

}  // namespace whisker
