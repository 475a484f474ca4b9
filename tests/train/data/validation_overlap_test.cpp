// A run says when it validates on images that its weights were trained on, by their content.
#include "train/data/validation_overlap.h"

#include "core/io/atomic_file.h"
#include "data/images/shared_images.h"
#include "data/images/split_list.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_training.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> notes_of(const Config& config) {
  Experiment experiment(config);
  return validation_overlap(experiment.config, experiment.data.images);
}

TEST(ValidationOverlap, CopiesUnderOtherNamesAreFound) {
  const StripeFolder data;
  EXPECT_THAT(notes_of(data.config()), IsEmpty());
  fs::copy_file(data / "train" / "c0" / "003.png", data / "val" / "c1" / "other.png");
  fs::copy_file(data / "train" / "c1" / "004.jpg", data / "val" / "c1" / "another.jpg");
  EXPECT_THAT(notes_of(data.config()),
              ElementsAre(HasSubstr("warning: 2 of the 12 validation images are training images, "
                                    "too, such as c1/another.jpg: they do not measure")));
  // A split keeps them on one side, and a test of overfitting is one on purpose.
  EXPECT_THAT(notes_of(data.config({"data.val=", "data.val_split=0.2"})), IsEmpty());
  EXPECT_THAT(notes_of(data.config({"train.overfit_batches=1"})),
              ElementsAre("train.overfit_batches=1: the same few training examples train and "
                          "validate; data.val is not used"));
}

TEST(ValidationOverlap, TestImagesThatTrainedOrChoseTheWeights) {
  const StripeFolder data;
  const auto with_test = [&](const char* name) {
    return notes_of(data.config({"data.test=" + (data / name).string()}));
  };
  EXPECT_THAT(with_test("train"),
              ElementsAre(HasSubstr("test images are training images, too, such as ")));
  EXPECT_THAT(with_test("val"), ElementsAre(HasSubstr("test images are validation images, too")));
}

TEST(ValidationOverlap, SizeAloneIsNoCopyAndTimeIsLimited) {
  const StripeFolder data;
  ImageFolder train = open_image_folder(data / "train");
  ImageFolder val = open_image_folder(data / "val");
  for (size_t i = 0; i < val.files.size(); ++i) val.files[i].bytes = train.files[i].bytes;
  EXPECT_EQ(find_shared(val, train).count, 0);
  EXPECT_EQ(find_shared(train, train).count, train.size());
  for (ImageFolder* folder : {&val, &train}) {
    for (ImageFile& file : folder->files) file.content = 0;
  }
  const SharedImages late = find_shared(val, train, 0);
  EXPECT_EQ(late.count, 0);
  EXPECT_EQ(late.unread, val.size());
}

TEST(ValidationOverlap, CopiesUnderTwoLabelsAreSaid) {
  const StripeFolder data;
  fs::copy_file(data / "train" / "c0" / "003.png", data / "train" / "c1" / "other.png");
  fs::copy_file(data / "train" / "c0" / "004.jpg", data / "train" / "c0" / "another.jpg");
  constexpr const char* says =
      "warning: 2 of the {} images of data.train are copies with different labels, such as "
      "c0/003.png and c1/other.png: at most one of the labels is right. Remove or correct them "
      "(whisker data check lists them).";
  EXPECT_THAT(notes_of(data.config()), ElementsAre(fmt::format(fmt::runtime(says), 42)));
  const Config split = data.config({"data.val=", "data.val_split=0.2"});
  EXPECT_THAT(Experiment(split).notes, testing::Contains(fmt::format(fmt::runtime(says), 42)));
  // No file is read twice, and time is limited.
  ImageFolder train = open_image_folder(data / "train");
  const ContradictingImages late = find_contradictions(train, 0);
  EXPECT_EQ(late.count, 0);
  EXPECT_GE(late.unread, 4);
  EXPECT_EQ(find_contradictions(train).count, 2);
  fs::remove_all(data / "train");
  EXPECT_EQ(find_contradictions(train, 0).count, 2);
}

TEST(ValidationOverlap, InitialWeightsThatTrainedOnThem) {
  const StripeFolder data(2, 20, 5);
  const Overrides split = {"data.val=", "data.val_split=0.2", "train.epochs=1"};
  TestRun first(data.config(joined(split, {"name=first"})));
  write_file_atomically(first.folder.split(), split_csv(first.experiment.data.images.train,
                                                        first.experiment.data.images.val));
  first.train();
  const std::string from = "init.from=" + first.folder.best().string();
  EXPECT_THAT(notes_of(data.config(joined(split, {from}))), IsEmpty());  // the same split
  const auto notes = notes_of(data.config(joined(split, {from, "seed=2"})));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0],
              HasSubstr(" of the 8 validation images trained the weights of init.from ("));
  EXPECT_THAT(notes[0], HasSubstr("first/split.csv): validation is too good."));
  // Elsewhere and under other names they are the same images; a second run's weights have seen them
  // as well.
  for (int c = 0; c < 2; ++c) {
    const fs::path from_class = data / "train" / fmt::format("c{}", c);
    fs::create_directories(data / "moved" / fmt::format("c{}", c));
    for (const auto& entry : fs::directory_iterator(from_class)) {
      fs::copy_file(entry.path(), data / "moved" / fmt::format("c{}", c) /
                                      ("x" + entry.path().filename().string()));
    }
  }
  const std::string moved = "data.val=" + (data / "moved").string();
  const std::string val = "data.train=" + (data / "val").string();
  EXPECT_THAT(
      notes_of(data.config({val, moved, from})),
      ElementsAre(HasSubstr("warning: 32 of the 40 validation images trained the weights")));
  TestRun second(data.config({val, from, "name=second", "train.epochs=1"}));
  second.train();
  write_file_atomically(second.folder.split(), split_csv(second.experiment.data.images.train,
                                                         second.experiment.data.images.val));
  EXPECT_THAT(
      notes_of(data.config({val, moved, "init.from=" + second.folder.best().string()})),
      ElementsAre(HasSubstr("first/best.safetensors, with which those of init.from began")));
}

TEST(ValidationOverlap, AValidationSetMayLackAClass) {
  const StripeFolder data(3, 8, 3);
  fs::remove_all(data / "val" / "c1");
  const auto notes = [&] { return Experiment(data.config()).notes; };
  EXPECT_THAT(notes(), testing::Contains(HasSubstr(
                           "data.val has no images of 1 of the 3 classes, on which validation is "
                           "silent: 'c1'")));
  fs::create_directory(data / "val" / "c1");
  EXPECT_THAT(notes(), testing::Contains(HasSubstr("data.val has no images of 1 of the 3")));
  const StripeFolder single(2, 8, 1);
  write_stripes(single / "train" / "extra", 1, 1, 500);
  fs::rename(single / "train" / "extra" / "c0", single / "train" / "c2");
  fs::remove(single / "train" / "extra");
  EXPECT_THAT(Experiment(single.config({"data.val=", "data.val_split=0.25"})).notes,
              testing::Contains(HasSubstr("data.val_split has no images of 1 of the 3 classes, on "
                                          "which validation is silent: 'c2'")));
  TestRun run(data.config({"train.epochs=1"}));
  const TrainResult result = run.train();
  EXPECT_EQ(result.validation->count(), 6);
  EXPECT_THAT(result.validation->table(80), HasSubstr("\nc1          0 "));
  write_stripes(data / "val" / "extra", 1, 1);
  fs::rename(data / "val" / "extra" / "c0", data / "val" / "c9");
  fs::remove(data / "val" / "extra");
  try {
    notes();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_THAT(error.what(), HasSubstr("'c9'"));
  }
}

}  // namespace
}  // namespace whisker::test
