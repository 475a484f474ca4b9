// Examples of texts and rows that a label CSV lists.
#include "data/sequences/listed_examples.h"

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

class ListedExamplesTest : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return (folder_ / name).string(); }
  ListedExamples listed(const std::string& csv) {
    return listed_examples(folder_.write("out/p.csv", csv), held_, classes_);
  }

  TemporaryFolder folder_;
  std::vector<std::string> classes_ = {"no", "yes", "=1"};
  std::vector<BadRow> bad_ = {
      {.place = place("t.csv:5"), .reason = "the text is empty", .line = 5}};
  HeldExamples held_{
      .places = {place("t.csv:2"), place("t.csv:3"), place("=a.csv:4"), place("pos/1.txt")},
      .labels = {"no", "yes", "yes", "no"},
      .bad = bad_};
};

TEST_F(ListedExamplesTest, PathsBeginAtTheCsvAndItsLabelsCount) {
  const ListedExamples found =
      listed("path,label,predicted\n" + place("pos/1.txt") +
             ",yes,no\n.././t.csv:3,yes,yes\n../=a.csv:4,'=1,no\n../t.csv:5,no,no\n"
             "../t.csv:9,no,no\n../t.csv:2,maybe,no\n");
  EXPECT_THAT(found.indices, ElementsAre(1, 2, 3));
  EXPECT_THAT(found.labels, ElementsAre(1, 2, 1));
  ASSERT_EQ(found.bad.size(), 3);
  EXPECT_EQ(found.bad[0].reason, "the text is empty");
  EXPECT_THAT(found.bad[1].place, testing::EndsWith("p.csv:6"));
  EXPECT_EQ(found.bad[1].reason, "there is no example '../t.csv:9'");
  EXPECT_THAT(found.bad[2].reason, HasSubstr("'maybe' is not a class of the model"));
  EXPECT_THAT(
      found.notes,
      ElementsAre(HasSubstr("the labels are those of column 2 ('label'); not used: 'predicted'"),
                  HasSubstr("1 of the 4 examples is not listed"),
                  HasSubstr("2 of its 3 labels differ from those in the data")));
}

TEST_F(ListedExamplesTest, TheCsvMayLieBehindALink) {
  fs::create_directories(folder_ / "a/b");
  fs::create_directory_symlink(folder_ / "a/b", folder_ / "link");
  folder_.write("a/b/p.csv", "path,label\n../../t.csv:2,yes\n");
  const fs::path csv = folder_ / "link/p.csv";
  EXPECT_THAT(listed_examples(csv, held_, classes_).indices, ElementsAre(0));
  EXPECT_EQ(fs::absolute(*listed_table(csv)).lexically_normal(), folder_ / "t.csv");
}

TEST_F(ListedExamplesTest, WhatIsWrittenForASpreadsheetIsRead) {
  const fs::path csv = folder_.write("p.csv", "path,label\n'=a.csv:4,yes\n");
  EXPECT_THAT(listed_examples(csv, held_, classes_).indices, ElementsAre(2));
}

TEST_F(ListedExamplesTest, WhatIsListedTwiceOrNowhereIsRefused) {
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { listed("path,label\n../t.csv:2,no\n.././t.csv:2,yes\n"); }),
      HasSubstr("p.csv:3: '.././t.csv:2' is listed in line 2 already as '../t.csv:2', with "
                "the label 'no'"));
  EXPECT_THAT(message_of(ErrorKind::data, [&] { listed("path,label\nt.csv:2,no\n"); }),
              HasSubstr("lists none of the 4 examples of DATA"));
  const std::string unknown =
      message_of(ErrorKind::data, [&] { listed("path,label\n../t.csv:2,maybe\n"); });
  EXPECT_THAT(unknown, HasSubstr("evaluate --csv: not one row of "));
  EXPECT_THAT(unknown, HasSubstr("p.csv:2: 'maybe' is not a class of the model, which has 'no'"));
}

TEST_F(ListedExamplesTest, OneTableIsFound) {
  const auto table = [&](const std::string& csv) {
    return listed_table(folder_.write("p.csv", "path,label\n" + csv));
  };
  EXPECT_EQ(fs::absolute(*table("t.csv:2,no\nt.csv:3,yes\n")).lexically_normal(),
            folder_ / "t.csv");
  EXPECT_EQ(table("'=a.csv:2,no\n")->filename(), "=a.csv");
  for (const char* other : {"t.csv:2,no\nu.csv:3,yes\n", "pos/1.txt,no\n", "t.csv:x,no\n"}) {
    EXPECT_EQ(table(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace whisker::test
