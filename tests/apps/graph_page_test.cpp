// What the page of study graph has, and what it leaves out for its size. tests/browser opens it.
#include "apps/study/graph_page.h"

#include "tests/support/error_of.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A chain of `count` relus over `elements` values.
Recording chain(size_t count, int64_t elements) {
  Recording recording{.title = "</script><b>", .entries = {}};
  const RecordedValues values{.all = std::vector<double>(static_cast<size_t>(elements), 1.0 / 3)};
  for (size_t i = 0; i < count; ++i) {
    TapeEntry entry{.name = "relu", .layer = "<i>"};
    entry.number = static_cast<int>(i + 1);
    entry.outputs = {{.shape = {elements}, .value = values}};
    if (i > 0) entry.inputs = {{.entry = i - 1}};
    recording.entries.push_back(std::move(entry));
  }
  return recording;
}

TEST(GraphPageText, NamesDoNotEndTheScript) {
  const GraphPage page = graph_page(chain(2, 3));
  EXPECT_EQ(page.left_out, "");
  EXPECT_THAT(page.text, HasSubstr("\"title\":\"\\u003c/script>\\u003cb>\""));
  EXPECT_THAT(page.text, HasSubstr("<title>&lt;/script&gt;&lt;b&gt;</title>"));
  EXPECT_THAT(page.text, HasSubstr("\"value\":[0.33333334,0.33333334,0.33333334]"));
  EXPECT_THAT(page.text, Not(HasSubstr("<i>")));
  EXPECT_TRUE(is_graph_page(page.text));
  EXPECT_FALSE(is_graph_page(page.text + "<!-- mine -->\n"));
}

TEST(GraphPageText, LargerTensorsHaveStatisticsWhereAllDoNotFit) {
  const GraphPage page = graph_page(chain(100, 3000));
  EXPECT_LE(page.text.size(), most_page_bytes);
  EXPECT_EQ(page.left_out,
            "so that the page stays below 1.9 MiB, 100 tensors of more than 1,024 values have "
            "statistics instead of values; study step shows up to 4,096");
  EXPECT_THAT(page.text, HasSubstr(page.left_out));
}

TEST(GraphPageText, OperatorsThatDoNotFitAreRefused) {
  EXPECT_THAT(test::message_of(ErrorKind::usage, [] { graph_page(chain(8000, 1)); }),
              HasSubstr("study graph: 8000 entries need a page of "));
}

}  // namespace
}  // namespace whisker
