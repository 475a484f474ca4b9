// Lists of "section.key=value", as on the command line.
#pragma once

#include <string>
#include <vector>

namespace whisker::test {

using Overrides = std::vector<std::string>;

/// `first`, then `more`, which win.
inline Overrides joined(Overrides first, const Overrides& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace whisker::test
