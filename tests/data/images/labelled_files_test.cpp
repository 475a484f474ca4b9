#include "data/images/labelled_files.h"

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

const Names classes = {"ant", "cat", "dog"};

class LabelledFiles : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name) const { return folder_.write(name).string(); }

  // "cat/1.jpg=1" for each image, below the test's folder.
  Names labelled(const Names& names, LabelOptions options = {}) const {
    options.classes = classes;
    const ImageFolder found = label_files(names, options);
    Names texts;
    for (const ImageFile& file : found.files) {
      const auto path = std::filesystem::path(file.path).lexically_relative(folder_.path());
      texts.push_back(fmt::format("{}={}", path.string(), file.label));
    }
    return texts;
  }
  std::string error_of(const Names& names, LabelOptions options = {},
                       ErrorKind kind = ErrorKind::data) const {
    return test::message_of(kind, [&] { labelled(names, std::move(options)); });
  }

  TemporaryFolder folder_;
};

TEST_F(LabelledFiles, OfClassFoldersAndOneClassFolder) {
  write("val/dog/1.jpg");
  write("val/cat/2.jpg");
  write("val/cat/deep/3.png");
  write("val/cat/notes.txt");
  EXPECT_THAT(labelled({at("val")}),
              ElementsAre("val/cat/2.jpg=1", "val/cat/deep/3.png=1", "val/dog/1.jpg=2"));
  EXPECT_THAT(labelled({at("val/dog/"), at("val/cat")}),
              ElementsAre("val/dog/1.jpg=2", "val/cat/2.jpg=1", "val/cat/deep/3.png=1"));
  // A folder that is called like a class and holds class folders is not a class folder.
  write("dog/cat/1.jpg");
  write("dog/dog/1.jpg");
  EXPECT_THAT(labelled({at("dog")}), ElementsAre("dog/cat/1.jpg=1", "dog/dog/1.jpg=2"));
}

TEST_F(LabelledFiles, NoneByANameThatTwoClassesHave) {
  const LabelOptions options{.classes = {"crane", "cat", "crane"}};
  EXPECT_EQ(label_files(Names{write("cat/1.jpg")}, options).files[0].label, 1);
  for (const std::string& given : {write("crane/1.jpg"), at("crane")}) {
    EXPECT_THAT(
        test::message_of(ErrorKind::checkpoint, [&] { label_files(Names{given}, options); }),
        HasSubstr("two classes of the weights file have this name"));
  }
}

TEST_F(LabelledFiles, OfSingleFilesByTheirFolderOnce) {
  const std::string dog = write("val/dog/1.jpg"), cat = write("val/cat/2.jpg");
  EXPECT_THAT(labelled({dog, cat, dog}), ElementsAre("val/dog/1.jpg=2", "val/cat/2.jpg=1"));
  EXPECT_THAT(labelled({dog, at("val")}), ElementsAre("val/dog/1.jpg=2", "val/cat/2.jpg=1"));
  EXPECT_THAT(label_files(Names{dog, at("val")}, {.classes = classes}).notes,
              ElementsAre("1 image is given more than once; each counts once"));
  const std::string both = write("val/cat/dog/3.jpg");  // by its folders, and by its own
  EXPECT_THAT(error_of({at("val"), both}),
              HasSubstr("3.jpg' is given twice, of the classes 'cat' and 'dog'"));
  std::filesystem::remove_all(at("val/cat/dog"));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(at("val/cat"));
  const ImageFolder here = label_files(Names{"2.jpg", "."}, {.classes = classes});
  std::filesystem::current_path(before);
  EXPECT_EQ(here.counts(), (std::vector<int64_t>{0, 1, 0}));
}

TEST_F(LabelledFiles, InAnotherNormalFormAreFoundAndTold) {
  write("cat/u\u0308.jpg");
  const ImageFolder found = label_files(Names{at("cat/\u00fc.jpg")}, {.classes = classes});
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found.files[0].path, at("cat/u\u0308.jpg"));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("1 path matches after Unicode's normal form C")));
}

TEST_F(LabelledFiles, ByAPattern) {
  write("flat/cat.1.jpg");
  const std::string dog = write("other/dog.2.jpg");
  write("flat/readme.jpg");
  EXPECT_THAT(labelled({at("flat"), dog}, {.label_pattern = "{label}.#.jpg"}),
              ElementsAre("flat/cat.1.jpg=1", "other/dog.2.jpg=2"));
  EXPECT_THAT(error_of({dog, at("flat/readme.jpg")}, {.label_pattern = "{label}.#.jpg"}),
              HasSubstr("readme.jpg'."));
  EXPECT_THAT(error_of({write("cow.2.jpg")}, {.label_pattern = "{label}.#.jpg"}),
              HasSubstr("cow.2.jpg'."));
  EXPECT_THAT(error_of({dog}, {.label_pattern = "label"}, ErrorKind::usage), HasSubstr("{label}"));
}

TEST_F(LabelledFiles, OfACsvBesideItOrInAFolder) {
  write("set/a.jpg");
  write("set/b.jpg");
  folder_.write("set/labels.csv", "label,path\ncat,b.jpg\ndog,a.jpg\nant,gone.jpg\n");
  folder_.write("labels.csv", "label,path\ncat,b.jpg\n");
  EXPECT_THAT(labelled({}, {.csv = at("set/labels.csv")}),
              ElementsAre("set/a.jpg=2", "set/b.jpg=1"));
  EXPECT_THAT(labelled({at("set")}, {.csv = at("labels.csv")}), ElementsAre("set/b.jpg=1"));
  const ImageFolder found = label_files({}, {.classes = classes, .csv = at("set/labels.csv")});
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_THAT(found.unreadable[0].path, testing::EndsWith("set/gone.jpg"));
  EXPECT_THAT(error_of({at("set"), at("set")}, {.csv = at("labels.csv")}, ErrorKind::usage),
              HasSubstr("at most one folder"));
  EXPECT_THAT(error_of({}, {.csv = at("none.csv")}), HasSubstr("none.csv"));
  folder_.write("set/labels.csv", "label,path\ncow,b.jpg\n");
  EXPECT_THAT(error_of({}, {.csv = at("set/labels.csv")}), HasSubstr("'cow'"));
}

TEST_F(LabelledFiles, GoesOnPastWhatCannotBeRead) {
  const std::string dog = write("val/dog/1.jpg");
  const ImageFolder found =
      label_files(Names{at("none.jpg"), dog, at("nowhere/")}, {.classes = classes});
  EXPECT_EQ(found.size(), 1);
  ASSERT_EQ(found.unreadable.size(), 2u);
  EXPECT_THAT(found.unreadable[0].reason, HasSubstr("No such file"));
}

TEST_F(LabelledFiles, SaysWhichHaveNoLabel) {
  const std::string loose = write("holiday/1.jpg");
  EXPECT_THAT(error_of({loose, write("val/dog/1.jpg")}),
              AllOf(HasSubstr("'ant', 'cat', 'dog'"), HasSubstr("holiday/1.jpg'"),
                    HasSubstr("--label-pattern")));
  EXPECT_THAT(error_of({at("holiday")}), HasSubstr("--label-pattern"));
  write("val/cow/1.jpg");
  EXPECT_THAT(error_of({at("val")}), HasSubstr("the classes 'cow' in"));
}

}  // namespace
}  // namespace whisker
