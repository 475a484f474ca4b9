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
  for (const char* name :
       {"train",         "Training",     "training_set", "seg_train",     "TRAIN",
        "train2017",     "train_images", "images.train", "train-set 1",   "train_data",
        "traindata",     "train_split",  "X_train",      "data_train",    "train_img",
        "Training Data", "train.v2",     "trainv2",      "train_resized", "trn",
        "trainval"}) {
    EXPECT_EQ(split_of_name(name), Split::train) << name;
  }
  for (const char* name : {"val", "valid", "Validation", "dev", "eval", "val2017", "validation_set",
                           "vld", "valData"}) {
    EXPECT_EQ(split_of_name(name), Split::val) << name;
  }
  for (const char* name : {"test", "Testing", "test_set", "seg_test", "test1", "x-test", "tst"}) {
    EXPECT_EQ(split_of_name(name), Split::test) << name;
  }
  for (const char* name : {"cat", "2019", "trainer", "trains", "contest", "set", "images", "",
                           "tr\xc3\xa4in", "device", "evaluated"}) {
    EXPECT_EQ(split_of_name(name), Split::none) << name;
  }
  for (const char* name : {"test tube", "training shoes", "value", "valve", "testy", "data",
                           "fold1", "train_cats", "trainA"}) {
    EXPECT_EQ(split_of_name(name), Split::none) << name;
  }
}

std::optional<SplitFolders> splits_in(const TemporaryFolder& folder) {
  return find_splits(folder.path(), {.what = "data.train", .holds_examples = holds_images});
}

std::string opening_error(const TemporaryFolder& folder) {
  return test::message_of(ErrorKind::data, [&] { open_image_folder(folder.path()); });
}

// What a run of older rules says of a reading that is refused now.
std::string reading_note(const TemporaryFolder& folder, int rules) {
  const std::vector<std::string> notes = open_image_folder(folder.path(), {.rules = rules}).notes;
  EXPECT_FALSE(notes.empty());
  const std::string begin =
      fmt::format("data.rules {} reads what newer ones refuse: data: ", rules);
  EXPECT_THAT(notes.at(0), testing::StartsWith(begin));
  return notes.at(0);
}

std::string splits_error(const TemporaryFolder& folder) {
  return test::message_of(ErrorKind::data, [&] { splits_in(folder); });
}

TEST(SplitFolders, AreFoundWhateverTheirSpelling) {
  const std::pair<const char*, const char*> layouts[] = {{"Training", "Testing"},
                                                         {"training_set", "test_set"},
                                                         {"seg_train", "seg_test"},
                                                         {"train_data", "test_data"},
                                                         {"Training Data", "x_test"},
                                                         {"trn", "tst"},
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
  EXPECT_FALSE(find_splits(folder / "none", {.holds_examples = holds_images}));
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
  TemporaryFolder lists;  // which are no examples
  for (const char* name : {"train/cat/1.jpg", "train_txt/1.txt", "val/cat/1.jpg"})
    lists.write(name);
  EXPECT_THAT(splits_in(lists)->others, ElementsAre("train_txt"));
  lists.write("data_train/1.txt");
  EXPECT_EQ(splits_in(lists)->train, lists / "train");
  EXPECT_THAT(splits_in(lists)->others, ElementsAre("data_train", "train_txt"));
}

TEST(SplitFolders, AClassMayHaveTheNameOfASplit) {
  TemporaryFolder vehicles;
  for (const char* name : {"train/1.jpg", "plane/1.jpg", "car/1.jpg"}) vehicles.write(name);
  EXPECT_FALSE(splits_in(vehicles));
  const ImageFolder found = open_image_folder(vehicles.path());
  EXPECT_THAT(found.classes, ElementsAre("car", "plane", "train"));
  EXPECT_THAT(found.notes,
              ElementsAre("'train' is read as a class: it holds no class folders, as a "
                          "split would"));
  // Names of files hold the labels, and the folder may be a split.
  EXPECT_THAT(test::message_of(ErrorKind::data,
                               [&] {
                                 find_splits(vehicles.path(), {.holds_examples = holds_images,
                                                               .labels_in_names = true});
                               }),
              HasSubstr("holds 'train' beside 'car', 'plane'"));
  vehicles.write("train/cat/1.jpg");
  EXPECT_THAT(splits_error(vehicles), HasSubstr("holds 'train' beside 'car', 'plane'"));
  for (const auto& names : std::vector<std::vector<const char*>>{
           {"test tube/1.jpg", "training shoes/1.jpg"},
           {"trainer/a/1.jpg", "trainer/b/1.jpg", "valve/c/1.jpg", "valve/d/1.jpg"},
           {"part 1/1.jpg", "part 2/1.jpg"},
           {"cat/left/1.jpg", "cat/right/1.jpg", "dog/left/1.jpg", "dog/top/1.jpg"},
           {"cat/left/1.jpg", "cat/right/1.jpg", "dog/1.jpg"}}) {
    TemporaryFolder classes;
    for (const char* name : names) classes.write(name);
    EXPECT_FALSE(splits_in(classes)) << names[0];
    EXPECT_EQ(opening_error(classes), "no error") << names[0];
  }
}

using Names = std::vector<const char*>;

// Which of two alike levels of folders are the classes?
const Names alike_folders[] = {
    {"part1/a/1.jpg", "part1/b/1.jpg", "part2/a/1.jpg", "part2/b/1.jpg"},
    {"2019/a/1.jpg", "2019/b/1.jpg", "2020/a/1.jpg", "2020/b/1.jpg"},
    {"kaggle_train/a/1.jpg", "kaggle_train/b/1.jpg", "own/a/1.jpg", "own/b/1.jpg", "own/c/1.jpg"},
    {"source/a/1.jpg", "source/b/1.jpg", "target/a/1.jpg", "target/b/1.jpg"},
    {"Testdaten/a/1.jpg", "Testdaten/b/1.jpg", "Trainingsdaten/a/1.jpg", "Trainingsdaten/b/1.jpg"},
    {"cat/a/1.jpg", "cat/b/1.jpg", "dog/a/1.jpg", "dog/b/1.jpg", "eel/a/1.jpg", "eel/b/1.jpg"},
    {"0/a/1.jpg", "0/b/1.jpg", "1/a/1.jpg", "1/b/1.jpg"}};

TEST(SplitFolders, FoldersThatHoldTheSameFoldersAreRefusedWithBothReadings) {
  for (const Names& names : alike_folders) {
    TemporaryFolder folder;
    for (const char* name : names) folder.write(name);
    const std::string first = std::string(names[0]).substr(0, std::string(names[0]).find('/'));
    EXPECT_THAT(
        opening_error(folder),
        AllOf(HasSubstr(fmt::format("'{}', '", first)),
              HasSubstr(", which all hold 'a', 'b'. Either they are parts of one data set: name "
                        "one of them as data.train and another as data.val, or read all as one by "
                        "data.label_pattern='*/{label}/*'. Or they are classes: set "
                        "data.label_pattern (--label-pattern) to '{label}/*/*'.")));
    EXPECT_THAT(reading_note(folder, 1), HasSubstr("Or they are classes"));
    EXPECT_THAT(reading_note(folder, 2), HasSubstr("Or they are classes"));
  }
  TemporaryFolder deep;  // Office-31's
  for (const char* name : {"amazon/images/mug/x/1.jpg", "amazon/images/pen/x/1.jpg",
                           "webcam/images/mug/x/1.jpg", "webcam/images/pen/x/1.jpg"}) {
    deep.write(name);
  }
  EXPECT_THAT(opening_error(deep),
              AllOf(HasSubstr("'amazon', 'webcam', which all hold 'mug', 'pen'."),
                    HasSubstr("'*/*/{label}/*/*'"), HasSubstr("'{label}/*/*/*/*'")));
  // As either reading wants it, and with known classes.
  EXPECT_THAT(open_image_folder(deep.path(), {.label_pattern = "*/*/{label}/*/*"}).classes,
              ElementsAre("mug", "pen"));
  EXPECT_THAT(open_image_folder(deep.path(), {.label_pattern = "{label}/*/*/*/*"}).classes,
              ElementsAre("amazon", "webcam"));
  EXPECT_EQ(open_image_folder(deep.path(), {.classes = {"amazon", "webcam"}}).size(), 4);
}

TEST(SplitFolders, NumbersInAllClassFoldersAreSaid) {
  TemporaryFolder years;
  for (const char* name :
       {"cat/2019/1.jpg", "cat/2020/1.jpg", "dog/2019/1.jpg", "dog/2020/1.jpg"}) {
    years.write(name);
  }
  const ImageFolder found = open_image_folder(years.path());
  EXPECT_THAT(found.classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(found.notes,
              ElementsAre("'cat', 'dog' are read as classes, though all hold '2019', '2020': "
                          "data.label_pattern='*/{label}/*' reads these as the classes"));
}

TEST(SplitFolders, SplitsOfClassesInTheirNamesAreRefusedWithBothReadings) {
  const std::pair<Names, const char*> layouts[] = {
      {{"cat_train/1.jpg", "dog_train/1.jpg", "cat_test/1.jpg", "dog_test/1.jpg"},
       "'{label}_train/*'"},
      {{"Train Cats 2/1.jpg", "Train Dog/1.jpg", "Val-cat/1.jpg"}, "'Train {label}/*'"},
      {{"my_train_cat/x/1.jpg", "my_train_dog/x/1.jpg", "my_test_dog/x/1.jpg"},
       "'my_train_{label}/*/*'"},
      {{"class1-training-set/1.jpg", "zwei-training-set/1.jpg", "zwei-dev-set/1.jpg"},
       "'{label}-training-set/*'"},
      {{"trainA/1.jpg", "trainB/1.jpg", "testA/1.jpg", "testB/1.jpg"}, "'train{label}/*'"}};
  for (const auto& [names, pattern] : layouts) {
    TemporaryFolder folder;
    for (const char* name : names) folder.write(name);
    EXPECT_THAT(opening_error(folder),
                AllOf(HasSubstr("Either they are splits of the classes in their names: "
                                "data.label_pattern=" +
                                std::string(pattern) + " reads those of"),
                      HasSubstr("a fifth of which validates, and moved to train/"),
                      HasSubstr("Or they are classes: set data.label_pattern")));
    const std::string bare(pattern + 1, std::string_view(pattern).size() - 2);
    EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = bare}).classes.size(), 2u) << bare;
  }
}

TEST(SplitFolders, LikelyPartsAreRefusedWithBothReadings) {
  const std::pair<Names, const char*> layouts[] = {
      {{"fold1/cat/1.jpg", "fold1/dog/1.jpg", "fold2/cat/1.jpg"}, "'fold1', 'fold2'"},
      {{"Fold_1/1.jpg", "Fold_2/1.jpg", "other/1.jpg"}, "'Fold_1', 'Fold_2'"},
      {{"kaggle_train/cat/1.jpg", "kaggle_train/dog/1.jpg", "kaggle_test/1.jpg"},
       "'kaggle_train', 'kaggle_test'"}};
  for (const auto& [names, parts] : layouts) {
    TemporaryFolder folder;
    for (const char* name : names) folder.write(name);
    EXPECT_FALSE(splits_in(folder)) << parts;
    EXPECT_THAT(opening_error(folder),
                AllOf(HasSubstr(fmt::format(" holds {}. Either", parts)), HasSubstr("data.val="),
                      HasSubstr("Or they are classes: set data.label_pattern")));
    EXPECT_THAT(reading_note(folder, 1), HasSubstr("Or they are classes"));
    EXPECT_THAT(reading_note(folder, 2), HasSubstr("Or they are classes"));
  }
  TemporaryFolder folds;
  for (const char* name : {"fold1/cat/1.jpg", "fold1/dog/1.jpg", "fold2/cat/1.jpg"})
    folds.write(name);
  EXPECT_THAT(opening_error(folds), AllOf(HasSubstr("'*/{label}/*'"), HasSubstr("'{label}/*/*'")));
  // As either reading wants it.
  EXPECT_THAT(open_image_folder(folds.path(), {.label_pattern = "*/{label}/*"}).classes,
              ElementsAre("cat", "dog"));
  EXPECT_THAT(open_image_folder(folds.path(), {.label_pattern = "{label}/*/*"}).classes,
              ElementsAre("fold1", "fold2"));
  EXPECT_EQ(open_image_folder(folds.path(), {.classes = {"fold1", "fold2"}}).size(), 3);
}

TEST(SplitFolders, AFolderAroundThemIsToBeNamed) {
  const std::pair<Names, const char*> layouts[] = {
      {{"data/train/cat/1.jpg", "data/val/cat/1.jpg"}, "data"},
      {{"a/b/Training/cat/1.jpg", "a/b/Testing/cat/1.jpg", "a/README.md"}, "a/b"},
      {{"data/train/1.jpg", "data/val/1.jpg"}, "data"},
      {{"data/train/cat/1.jpg", "data/test/cat/1.jpg", "extra/x/1.jpg"}, "data"},
      {{"data/info/1.txt", "data/train/cat/1.jpg", "data/val/cat/1.jpg", "extra/x/1.jpg"}, "data"},
      {{"data/train/cat/1.jpg", "runs/train/1.txt"}, "data"}};
  for (const auto& [names, inner] : layouts) {
    TemporaryFolder folder;
    for (const char* name : names) folder.write(name);
    const std::string error = splits_error(folder);
    EXPECT_THAT(error,
                AllOf(HasSubstr("data.train: the splits '"),
                      HasSubstr(fmt::format(" lie in {}. Name that folder instead of {}.",
                                            (folder / inner).string(), folder.path().string()))));
    EXPECT_EQ(error.find("'data', 'extra' are classes: set data.label_pattern (--label-pattern) to "
                         "'{label}/*/*/*'") != error.npos,
              names.back() == std::string("extra/x/1.jpg"));
    EXPECT_TRUE(find_splits(folder / inner, {.holds_examples = holds_images}));
  }
}

TEST(SplitFolders, WithinClassesAreRefusedWithBothReadings) {
  TemporaryFolder folder;
  for (const char* name :
       {"cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg", "dog/val/1.jpg"}) {
    folder.write(name);
  }
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { open_image_folder(folder.path()); }),
              AllOf(HasSubstr("/cat holds 'train', 'val', the names of splits. Either"),
                    HasSubstr("'{label}/train/*'"), HasSubstr("'{label}/*/*'")));
  EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = "{label}/train/*"}).size(), 2);
  EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = "{label}/*/*"}).size(), 4);
  TemporaryFolder beside;
  for (const char* name : {"cat/1.jpg", "cat/val/2.jpg", "dog/1.jpg"}) beside.write(name);
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { open_image_folder(beside.path()); }),
              HasSubstr("/cat holds 'val', the name of a split, and other examples"));
  TemporaryFolder sets;  // MVTec's, one for each object
  for (const char* name : {"bottle/train/good/1.jpg", "bottle/test/bad/1.jpg",
                           "cable/train/good/1.jpg", "cable/test/bad/1.jpg"}) {
    sets.write(name);
  }
  EXPECT_FALSE(splits_in(sets));
  EXPECT_THAT(opening_error(sets), AllOf(HasSubstr("'{label}/train/*/*' reads one of them"),
                                         HasSubstr("'{label}/*/*/*'. Or each is a data set of its "
                                                   "own: name one, such as "),
                                         HasSubstr("/bottle.")));
  TemporaryFolder alone;  // one reading
  for (const char* name : {"cat/train/1.jpg", "dog/train/1.jpg"}) alone.write(name);
  EXPECT_EQ(open_image_folder(alone.path()).size(), 2);
  TemporaryFolder apart;  // one in each class
  for (const char* name : {"ant/train/1.jpg", "bee/test/1.jpg"}) apart.write(name);
  EXPECT_THAT(opening_error(apart),
              AllOf(HasSubstr("/ant holds 'train' and "), HasSubstr("/bee 'test'"),
                    HasSubstr("'{label}/train/*'"), HasSubstr("'{label}/*/*'")));
  EXPECT_EQ(open_image_folder(apart.path(), {.label_pattern = "{label}/*/*"}).size(), 2);
}

}  // namespace
}  // namespace whisker
