// Names of classes: found by bytes or normal form, refused where that is not one, reported where
// two are hard to tell apart.
#include "data/class_names.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ClassNames, AreFoundByNormalFormWhereOneHasIt) {
  const std::vector<std::string> classes = {"cafe\u0301", "\u1e69", "s\u0323\u0307"};
  EXPECT_EQ(class_number(classes, "caf\u00e9"), 0);
  EXPECT_EQ(class_number(classes, "s\u0323\u0307"), 2);
  EXPECT_EQ(class_number(classes, "cafe"), std::nullopt);
  EXPECT_THAT(message_of(ErrorKind::data, [&] { class_number(classes, "s\u0307\u0323"); }),
              HasSubstr("two classes have this name"));
}

TEST(ClassNames, OfOtherBytesAreCounted) {
  NormalisedNames names;
  names.add("x", "x");
  EXPECT_EQ(names.note("label", "labels"), "");
  names.add("caf\u00e9", "cafe\u0301");
  names.add("th\u00e9", "the\u0301");
  EXPECT_EQ(names.note("label", "labels"),
            "2 labels match after Unicode's normal form C (NFC), not byte for byte, such as "
            "'caf\u00e9'");
}

TEST(ClassNames, SpellingsOfOneLabelAreReported) {
  const auto lines = [](const std::vector<std::string>& classes) {
    return similar_classes(classes);
  };
  EXPECT_THAT(
      lines({"0", "0.0", "01", "1", "1e0"}),
      ElementsAre("classes '0' and '0.0' differ in the way a number is written alone: one "
                  "class or two?",
                  HasSubstr("'01' and '1' differ in the way"), HasSubstr("'01' and '1e0'")));
  EXPECT_THAT(lines({"Non_Spam", "non-spam", "non_spam"}),
              ElementsAre(HasSubstr("'Non_Spam' and 'non_spam' differ in case alone"),
                          HasSubstr("'Non_Spam' and 'non-spam' differ in case, blanks and "
                                    "punctuation alone")));
  EXPECT_THAT(lines({"non-spam", "nonspam"}), ElementsAre(HasSubstr("in punctuation alone")));
  EXPECT_THAT(
      lines({"ant", "ant|bee", "bee", "neg", "neg, pos", "pos"}),
      ElementsAre("class 'ant|bee' joins names of other classes, but is a class of its own: "
                  "an example has one class",
                  HasSubstr("class 'neg, pos' joins")));
  EXPECT_THAT(
      lines({"NA", "ant", "n/a", "nan"}),
      ElementsAre(HasSubstr("class 'NA' is a class like others: where it stands for a missing"),
                  HasSubstr("'n/a'"), HasSubstr("'nan'")));
  // Grades, ranges, signs, versions, languages, long numbers, a name that holds another.
  EXPECT_THAT(lines({"A",
                     "A+",
                     "A-",
                     "1-2",
                     "12",
                     "-1",
                     "1",
                     "1.5",
                     "15",
                     "+",
                     "-",
                     "C",
                     "C++",
                     "C#",
                     "n02085620",
                     "12345678901234567",
                     "12345678901234568",
                     "none",
                     "other",
                     "maillot",
                     "maillot, tank suit",
                     "inf",
                     "infinity"}),
              IsEmpty());
}

TEST(ClassNames, ThatDifferLittleAreReported) {
  EXPECT_THAT(similar_classes(std::vector<std::string>{"cat", "dog", "cats"}), IsEmpty());
  // A no-break space is a blank; its second byte within other characters is none.
  EXPECT_THAT(similar_classes(std::vector<std::string>{"\u5834", "\u5d20"}), IsEmpty());
  EXPECT_THAT(similar_classes(std::vector<std::string>{"red\u00a0fox", "redfox"}),
              ElementsAre(HasSubstr("differ in blanks alone")));
  EXPECT_THAT(similar_classes(std::vector<std::string>{"Cat", "cat", " dog", "dog", "e\u0301",
                                                       "\u00e9", "Red Fox", "redfox"}),
              ElementsAre("classes 'e\u0301' and '\u00e9' differ in Unicode's normal form alone: "
                          "one class or two?",
                          "classes ' dog' and 'dog' differ in blanks alone: one class or two?",
                          "classes 'Cat' and 'cat' differ in case alone: one class or two?",
                          "classes 'Red Fox' and 'redfox' differ in case and blanks alone: one "
                          "class or two?"));
  std::vector<std::string> many;
  for (char c = 'a'; c < 'l'; ++c) {
    many.emplace_back(1, c);
    many.emplace_back(1, static_cast<char>(c - 32));
  }
  const std::vector<std::string> lines = similar_classes(many);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines.back(), "3 more classes are doubtful");
}

}  // namespace
}  // namespace whisker::test
