#include "data/files/split_folders.h"

#include "data/images/image_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SplitFolders, NamesAreNormalised) {
  for (const char* name : {"train", "Training", "training_set", "seg_train", "TRAIN", "train2017",
                           "train_images", "images.train", "train-set 1"}) {
    EXPECT_EQ(split_of_name(name), Split::train) << name;
  }
  for (const char* name :
       {"val", "valid", "Validation", "dev", "eval", "val2017", "validation_set"}) {
    EXPECT_EQ(split_of_name(name), Split::val) << name;
  }
  for (const char* name : {"test", "Testing", "test_set", "seg_test", "test1"}) {
    EXPECT_EQ(split_of_name(name), Split::test) << name;
  }
  for (const char* name : {"cat", "2019", "trainer", "trains", "contest", "set", "images", "",
                           "tr\xc3\xa4in", "device", "evaluated"}) {
    EXPECT_EQ(split_of_name(name), Split::none) << name;
  }
}

std::optional<SplitFolders> splits_in(const TemporaryFolder& folder) {
  return find_splits(folder.path(), "data.train", holds_images);
}

std::string splits_error(const TemporaryFolder& folder) {
  return test::message_of(ErrorKind::data, [&] { splits_in(folder); });
}

TEST(SplitFolders, AreFoundWhateverTheirSpelling) {
  const std::pair<const char*, const char*> layouts[] = {{"Training", "Testing"},
                                                         {"training_set", "test_set"},
                                                         {"seg_train", "seg_test"},
                                                         {"train", "test"}};
  for (const auto& [train, test] : layouts) {
    TemporaryFolder folder;
    folder.write(fmt::format("{}/cat/1.jpg", train));
    folder.write(fmt::format("{}/cat/1.jpg", test));
    folder.write("README.md");
    folder.write("notes/1.txt");
    folder.write(".git/1.jpg");
    folder.write("__MACOSX/1.jpg");
    const auto found = splits_in(folder);
    ASSERT_TRUE(found) << train;
    EXPECT_EQ(found->train, folder / train);
    EXPECT_EQ(found->val, "");
    EXPECT_EQ(found->test, folder / test);
    EXPECT_THAT(found->others, ElementsAre("README.md", "notes"));
  }
  TemporaryFolder three;
  for (const char* name : {"Train", "valid", "TEST"})
    three.write(fmt::format("{}/cat/1.jpg", name));
  const auto found = splits_in(three);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->val, three / "valid");
  EXPECT_EQ(found->test, three / "TEST");
}

TEST(SplitFolders, ClassFoldersAreNone) {
  TemporaryFolder folder;
  folder.write("cat/2019/1.jpg");
  folder.write("cat/2020/1.jpg");
  folder.write("dog/1.jpg");
  folder.write("train.jpg");
  EXPECT_FALSE(splits_in(folder));
  EXPECT_EQ(open_image_folder(folder.path()).size(), 3);
  EXPECT_FALSE(find_splits(folder / "none", "data", holds_images));
}

TEST(SplitFolders, MixturesAreRefusedWithBothReadings) {
  TemporaryFolder fastai;
  for (const char* name : {"ok/1.jpg", "nok/1.jpg", "test/1.jpg"}) fastai.write(name);
  EXPECT_THAT(splits_error(fastai),
              AllOf(HasSubstr("holds 'test' beside 'nok', 'ok'"), HasSubstr("are classes"),
                    HasSubstr("'{label}/*'"), HasSubstr("is a split")));
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { open_image_folder(fastai.path()); }),
              AllOf(HasSubstr("got 'test', which names a split"), HasSubstr("/test)")));
  // As one reading wants it.
  EXPECT_EQ(open_image_folder(fastai.path(), {.label_pattern = "{label}/*"}).classes.size(), 3u);
  EXPECT_EQ(open_image_folder(fastai.path(), {.classes = {"nok", "ok", "test"}}).size(), 3);

  TemporaryFolder twice;
  for (const char* name : {"train1/cat/1.jpg", "train2/cat/1.jpg"}) twice.write(name);
  EXPECT_THAT(splits_error(twice), HasSubstr("'train1' and 'train2'"));
  TemporaryFolder untrained;
  for (const char* name : {"val/cat/1.jpg", "test/cat/1.jpg"}) untrained.write(name);
  EXPECT_THAT(splits_error(untrained), HasSubstr("no folder of training data"));
}

TEST(SplitFolders, WithinClassesAreRefusedWithBothReadings) {
  TemporaryFolder folder;
  for (const char* name :
       {"cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg", "dog/val/1.jpg"}) {
    folder.write(name);
  }
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { open_image_folder(folder.path()); }),
              AllOf(HasSubstr("/cat holds 'train', 'val'"), HasSubstr("'{label}/train/*'"),
                    HasSubstr("'{label}/*/*'")));
  EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = "{label}/train/*"}).size(), 2);
  EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = "{label}/*/*"}).size(), 4);
  TemporaryFolder beside;
  for (const char* name : {"cat/1.jpg", "cat/val/2.jpg", "dog/1.jpg"}) beside.write(name);
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { open_image_folder(beside.path()); }),
              HasSubstr("/cat holds 'val'"));
  TemporaryFolder alone;  // one reading
  for (const char* name : {"cat/train/1.jpg", "dog/train/1.jpg"}) alone.write(name);
  EXPECT_EQ(open_image_folder(alone.path()).size(), 2);
}

}  // namespace
}  // namespace whisker
