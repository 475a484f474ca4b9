// Numbers that a script made with another framework, in a JSON file.
#pragma once

#include "core/io/file.h"
#include "core/io/json.h"

#include <string>
#include <vector>

namespace whisker::test {

inline JsonValue json_fixture(const std::string& path) {
  return JsonValue::parse(read_file(path, 1 << 20, ErrorKind::data), {.name = path});
}

inline std::vector<double> numbers_of(const JsonValue& list) {
  std::vector<double> values;
  for (const JsonValue& item : list.items()) values.push_back(item.as_double());
  return values;
}

}  // namespace whisker::test
