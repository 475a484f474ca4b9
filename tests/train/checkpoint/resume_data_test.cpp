// What a resumed run compares its images with: times, then contents, then, in checkpoints that know
// neither, names and sizes alone. Edits that are refused: CheckpointResume in resume_test.cpp.
#include "core/io/file.h"
#include "core/io/json.h"
#include "data/images/file_stamps.h"
#include "tests/support/change_times.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// A copied or checked out folder has new times and the old content; then its times are the run's.
TEST(ResumedImages, MayBeCopied) {
  const StripeFolder data;
  Config config = data.config();
  const std::string expected = hash_of_run(config);
  const fs::path folder = stopped_at(config, 3);
  fs::copy(data / "train", data / "copy", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(data / "copy")) {
    fs::last_write_time(entry.path(), fs::file_time_type() + std::chrono::hours(1));
  }
  config.data.train = (data / "copy").string();
  {
    TestRun part(config, folder);
    part.recorder.each_step = [&](const StepEvent&) { part.stop = 15; };
    part.train();
  }
  const LoadedCheckpoint checkpoint = load_last(folder / "last");
  const SafetensorsTensor* const stamps = checkpoint.optimizer.find("data.train");
  ASSERT_NE(stamps, nullptr);
  EXPECT_EQ(stamps->shape, (std::vector<uint64_t>{40, 2}));
  std::vector<FileStamp> copied(40);
  std::memcpy(copied.data(), stamps->bytes.data(), stamps->bytes.size());
  const ImageFolder now = open_image_folder(data / "copy");
  for (size_t i = 0; i < copied.size(); ++i) {
    EXPECT_EQ(copied[i].modified_ns, now.files[i].modified_ns);
    EXPECT_NE(copied[i].content, 0U);
  }
  EXPECT_EQ(hash_of_run(config, folder), expected);
}

// As an archive does whose files all have one time.
TEST(ResumedImages, OfTheSameSizeAndModificationTimeAreCompared) {
  const StripeFolder data;
  const Config config = data.config();
  const fs::path folder = stopped_at(config, 10);
  const fs::path image = data / "train/c1/013.png";
  const auto time = fs::last_write_time(image);
  if (!has_fine_change_times()) GTEST_SKIP();
  std::fstream(image, std::ios::binary | std::ios::in | std::ios::out).put('x');
  fs::last_write_time(image, time);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { TestRun run(config, folder); }),
              HasSubstr("another content, of the same size, in "));
}

// Folders that may be classes or parts of one data set: what older rules read is read again.
TEST(ResumedImages, WhatNewerRulesRefuseIsReadAsThen) {
  const StripeFolder data;
  for (const char* classes : {"train/c0", "train/c1", "val/c0", "val/c1"}) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(data / classes)) files.push_back(entry.path());
    for (size_t i = 0; i < files.size(); ++i) {
      const fs::path part = data / classes / (i % 2 == 0 ? "good" : "bad");
      fs::create_directory(part);
      fs::rename(files[i], part / files[i].filename());
    }
  }
  EXPECT_THAT(message_of(ErrorKind::data, [&] { open_data(data.config()); }),
              HasSubstr("which all hold 'bad', 'good'"));
  const Config config = data.config({"data.rules=2"});
  const std::string expected = hash_of_run(config);
  const fs::path folder = stopped_at(config, 3);
  EXPECT_EQ(hash_of_run(config, folder), expected);
  EXPECT_THAT(Experiment(config, StartFrom::checkpoint).notes,
              testing::Contains(HasSubstr("data.train: data.rules 2 reads what newer ones refuse: "
                                          "data.train: ")));
}

// A run stopped by kill -9 in its first epoch has not read all.
TEST(ResumedImages, WhatWasNotReadMayHaveAnotherTime) {
  const StripeFolder data;
  const ImageFolder folder = open_image_folder(data / "train");
  const FileStamps stamps(folder);
  std::vector<FileStamp> before(static_cast<size_t>(folder.size()), {.modified_ns = 1});
  EXPECT_THAT(stamps.changed_since(before, 1), testing::IsEmpty());
  before[3].content = 7;
  EXPECT_THAT(stamps.changed_since(before, 1), testing::ElementsAre(folder.file(3).string()));
}

// As after chmod, rsync -a and hard links: some are read, and all where one differs.
TEST(ResumedImages, OfAnotherStatusAreSampled) {
  const TemporaryFolder place;
  place.write("a.jpg");
  ImageFolder folder;
  folder.root = place.path();
  folder.files.assign(600, {.path = "a.jpg", .modified_ns = 30, .written_ns = 10});
  const FileStamps stamps(folder);
  std::vector<FileStamp> before(
      600, {.modified_ns = 20, .content = content_hash(place.path() / "a.jpg")});
  EXPECT_THAT(stamps.changed_since(before, 1), testing::IsEmpty());
  before[1].content = 7;
  EXPECT_THAT(stamps.changed_since(before, 1), testing::IsEmpty());  // not in the sample
  before[0].content = 7;
  EXPECT_EQ(stamps.changed_since(before, 1).size(), 2U);
  before[0].content = before[2].content;
  folder.files[1].written_ns = 30;
  EXPECT_EQ(stamps.changed_since(before, 1).size(), 1U);
}

/// Makes the checkpoint one of before images were compared by content.
void remove_stamps(const fs::path& last) {
  const fs::path state = last / "state.json";
  const std::string text = read_file(state, 1 << 20, ErrorKind::data);
  const JsonValue entry = JsonValue::parse(text, {.name = "state"}).at("optimizer");
  const fs::path path = last / entry.at("name").as_string();
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<SafetensorsEntry> kept;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with("data.")) continue;
    kept.push_back(
        {tensor.name, tensor.dtype, tensor.shape, [bytes = tensor.bytes] { return bytes; }});
  }
  EXPECT_EQ(kept.size() + 2, file.tensors().size());
  const WrittenFile written = write_safetensors(path, {}, kept);
  const auto part = [](uint64_t bytes, uint64_t hash) {
    return fmt::format("\"bytes\":{},\"hash\":{}", bytes, hash);
  };
  const std::string old = part(entry.at("bytes").as_uint(), entry.at("hash").as_uint());
  ASSERT_NE(text.find(old), std::string::npos);
  std::string changed = text;
  changed.replace(text.find(old), old.size(), part(written.bytes, written.hash));
  std::ofstream(state) << changed;
}

TEST(ResumedImages, OldCheckpointsAreComparedAsTheyWere) {
  const StripeFolder data;
  const Config config = data.config();
  const std::string expected = hash_of_run(config);
  const fs::path folder = stopped_at(config, 3);
  remove_stamps(folder / "last");
  EXPECT_EQ(hash_of_run(config, folder), expected);
  const fs::path other = stopped_at(config, 3);
  remove_stamps(other / "last");
  fs::remove(data / "train/c0/000.jpg");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { TestRun run(config, other); }),
              HasSubstr("the training or validation data changed"));
}

// While features are cached, another dataset reads the images than after unfreeze_at.
TEST(ResumedImages, AreComparedAfterCachedFeatures) {
  const StripeFolder data;
  const Config config = data.config(
      {"train.epochs=4", "freeze=[backbone]", "unfreeze_at=1", "features=cached"});  // 5 steps each
  const fs::path folder = stopped_at(config, 7);
  const fs::path other = stopped_at(config, 7);
  remove_stamps(other / "last");
  TestRun rest(config, other);
  rest.train();
  const std::vector<FileStamp> stamps = rest.experiment.data.train_images->stamps().get();
  EXPECT_EQ(std::ranges::count(stamps, uint64_t{0}, &FileStamp::content), 0)
      << "images that the resumed run read first";
  const fs::path image = data / "train/c1/013.png";
  const auto before = fs::last_write_time(image);
  std::fstream(image, std::ios::binary | std::ios::in | std::ios::out).put('x');
  fs::last_write_time(image, before + std::chrono::hours(1));
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { TestRun run(config, folder); }),
              HasSubstr("train/c1/013.png'"));
}

}  // namespace
}  // namespace whisker::test
