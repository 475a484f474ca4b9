// docs/reference/configuration.md holds every key of the schema, as `whisker config keys` prints
// it.
#include "core/io/file.h"
#include "core/io/json.h"
#include "train/config/config.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

std::string page() {
  return read_file(WHISKER_SOURCE_DIR "/docs/reference/configuration.md", 1 << 20,
                   ErrorKind::usage);
}

TEST(ConfigReference, StandsOnThePage) {
  EXPECT_TRUE(page().ends_with(config_reference()))
      << "write the output of `whisker config keys` behind the comment in "
         "docs/reference/configuration.md";
}

// Calls fn(path, schema of the key) for every key that holds a value.
template <class Fn>
void for_each_key(const JsonValue& map, const std::string& prefix, Fn&& fn) {
  for (const auto& [key, schema] : map.at("properties").members()) {
    const JsonValue* items = schema.find("items");
    if (schema.find("properties")) {
      for_each_key(schema, prefix + key + ".", fn);
    } else if (items && items->find("properties")) {
      for_each_key(*items, prefix + key + "[].", fn);
    } else {
      fn(prefix + key, schema);
    }
  }
}

TEST(ConfigReference, HasEveryKeyWithItsMeaningAndBounds) {
  const std::string text = page();
  const JsonValue schema = JsonValue::parse(config_schema(), {.name = "schema", .max_depth = 32});
  int keys = 0;
  for_each_key(schema, "", [&](const std::string& path, const JsonValue& key) {
    const size_t begin = text.find(fmt::format("\n| `{}`", path));
    ASSERT_NE(begin, std::string::npos) << path;
    const std::string row = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
    EXPECT_EQ(std::ranges::count(row, '|'), 5) << row;
    EXPECT_THAT(row, HasSubstr(key.at("description").as_string()));
    for (const char* bound : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const JsonValue* value = key.find(bound);
      if (!value || std::abs(value->as_double()) >= 1e6) continue;
      EXPECT_THAT(row, HasSubstr(fmt::format("{}", value->as_double()))) << path << " " << bound;
    }
    ++keys;
  });
  fmt::print("keys on the page: {}\n", keys);
  EXPECT_GE(keys, 100);
}

}  // namespace
}  // namespace whisker
