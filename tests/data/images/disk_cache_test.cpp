// The cache on disk: whatever happens to its file, training sees the same pixels; whatever happens
// to an image, training does not see the old ones; and no other file is ever replaced.
#include "core/error.h"
#include "core/io/file.h"
#include "core/tensor/philox.h"
#include "data/images/image_dataset.h"
#include "tests/support/change_times.h"
#include "tests/support/error_of.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string content_of(const fs::path& path) {
  return read_file(path, 1 << 24, ErrorKind::data);
}

/// Twelve JPEG files in two classes, and the place of a cache that the walk does not see.
class DiskCache : public testing::Test {
 protected:
  DiskCache() {
    for (int i = 0; i < images; ++i) write_image(i, i);
  }

  void write_image(int number, int seed) {
    folder_.write(path_of(number),
                  test::write_jpeg(test::sample_image(30 + seed % 7, 30 + seed % 5)));
  }
  static std::string path_of(int number) {
    return fmt::format("{}/{:02}.jpg", number < images / 2 ? 'a' : 'b', number);
  }
  /// Sets a modification time of its own: clocks of file systems are coarse.
  void touch(const std::string& name) {
    fs::last_write_time(folder_ / name,
                        fs::last_write_time(folder_ / name) + std::chrono::seconds(++touched_));
  }
  std::unique_ptr<ImageDataset> open(const fs::path& file, int short_side = 0) const {
    Preprocess preprocess;
    preprocess.size = {16, 16};
    return std::make_unique<ImageDataset>(
        open_image_folder(folder_.path()),
        ImageDatasetOptions{
            .preprocess = preprocess,
            .cache = {.kind = CacheKind::disk, .file = file, .short_side = short_side}});
  }
  std::unique_ptr<ImageDataset> open(int short_side = 0) const { return open(packed_, short_side); }
  static std::vector<std::vector<double>> pixels(const ImageDataset& data) {
    std::vector<std::vector<double>> all;
    for (int64_t i = 0; i < data.size(); ++i) all.push_back(data.get(i).input.to_vector());
    return all;
  }

  static constexpr int images = 12;
  TemporaryFolder folder_;
  fs::path packed_ = folder_.path() / ".packed";
  int touched_ = 0;
};

TEST_F(DiskCache, ServesOnlyItsOwnData) {
  const auto before = pixels(*open());
  const std::string content = content_of(packed_);
  const auto inode = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(packed_.c_str(), &info), 0);
    return info.st_ino;
  };
  const auto made = inode();
  EXPECT_EQ(pixels(*open()), before);
  EXPECT_EQ(inode(), made);  // not made again
  // Another size, damage to the index, a truncated file: rebuilt.
  EXPECT_NE(pixels(*open(20)), before);
  EXPECT_EQ(pixels(*open()), before);
  for (const size_t at : {content.size() - 1, content.size() - 12, content.size() - 40}) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    folder_.write(".packed", damaged);
    const auto data = open();
    EXPECT_THAT(data->take_note(),
                HasSubstr(packed_.string() + " was damaged, or belongs to other images"));
    EXPECT_EQ(data->take_note(), "");
    EXPECT_EQ(pixels(*data), before);
    EXPECT_EQ(content_of(packed_), content);
    EXPECT_EQ(open()->take_note(), "");
  }
  folder_.write(".packed", content.substr(0, content.size() / 2));
  EXPECT_EQ(pixels(*open()), before);
  fs::remove(folder_ / path_of(3));
  EXPECT_EQ(open()->size(), images - 1);
}

TEST_F(DiskCache, TheImagesAreNotReadAgain) {
  const auto before = pixels(*open());
  const auto data = open();
  for (int i = 0; i < images; ++i) fs::resize_file(folder_ / path_of(i), 0);
  EXPECT_EQ(pixels(*data), before);
}

// One changed bit anywhere in the pixels, found while the file is open: the pixels are right, the
// file is whole again, and it is said once.
TEST_F(DiskCache, DamagedPixelsAreDecodedAgainAndWrittenBack) {
  const auto before = pixels(*open());
  const std::string content = content_of(packed_);
  const size_t pixel_bytes = content.size() - 32 - images * 40 - 8;
  PhiloxStream random(/*seed=*/1, stream_of("damage"));
  int repaired = 0;
  constexpr int trials = 220;
  for (int trial = 0; trial < trials; ++trial) {
    const auto data = open();
    EXPECT_EQ(data->take_note(), "");
    std::string damaged = content;
    const size_t at = 8 + static_cast<size_t>(random.uniform() * static_cast<double>(pixel_bytes));
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << trial % 8));
    folder_.write(".packed", damaged);
    EXPECT_EQ(pixels(*data), before) << "byte " << at;
    repaired += content_of(packed_) == content;
    EXPECT_THAT(data->take_note(), HasSubstr(packed_.string() + " was truncated or damaged"));
    EXPECT_EQ(pixels(*data), before);
    EXPECT_EQ(data->take_note(), "");
  }
  EXPECT_EQ(repaired, trials);
  fmt::print("changed bits of a cache found and repaired: {} of {}\n", repaired, trials);
}

// A mapped file would end the process by SIGBUS.
TEST_F(DiskCache, CuttingItWhileItIsOpenLosesNothing) {
  const auto before = pixels(*open());
  const std::string content = content_of(packed_);
  for (const size_t size : {content.size() - 1, content.size() / 2, size_t{100}, size_t{0}}) {
    const auto data = open();
    fs::resize_file(packed_, size);
    EXPECT_EQ(pixels(*data), before) << size;
    const bool into_pixels = size <= content.size() / 2;
    EXPECT_EQ(data->take_note().empty(), !into_pixels) << size;
    EXPECT_EQ(content_of(packed_) == content, into_pixels) << size;
  }
}

TEST_F(DiskCache, DamageToAnUnwritableCacheIsDecodedEachTime) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write";
  const auto before = pixels(*open());
  std::string damaged = content_of(packed_);
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  folder_.write(".packed", damaged);
  fs::permissions(packed_, fs::perms::owner_read);
  const auto data = open();
  EXPECT_EQ(pixels(*data), before);
  EXPECT_EQ(pixels(*data), before);
  EXPECT_EQ(content_of(packed_), damaged);
}

TEST_F(DiskCache, AnEditedImageOfTheSameSizeIsNoticed) {
  const auto before = pixels(*open());
  const std::string content = content_of(packed_);
  // Another file of the same size: bytes after the end of the shorter one.
  std::string other = content_of(folder_ / path_of(7));
  std::string first = content_of(folder_ / path_of(0));
  const size_t size = std::max(first.size(), other.size());
  first.resize(size, ' ');
  folder_.write(path_of(0), first);
  EXPECT_EQ(pixels(*open()), before);
  other.resize(size, ' ');
  // The modification time stays, as in archives whose files all have one.
  const auto time = fs::last_write_time(folder_ / path_of(0));
  if (!test::has_fine_change_times()) GTEST_SKIP();
  folder_.write(path_of(0), other);
  fs::last_write_time(folder_ / path_of(0), time);
  auto expected = before;
  expected[0] = before[7];
  EXPECT_EQ(pixels(*open()), expected);
}

TEST_F(DiskCache, NewTimesAloneAreWrittenDown) {
  const auto before = pixels(*open());
  const std::string content = content_of(packed_);
  struct stat made {
  }, now{};
  ASSERT_EQ(::stat(packed_.c_str(), &made), 0);
  for (int i = 0; i < images; ++i) touch(path_of(i));
  EXPECT_EQ(pixels(*open()), before);
  ASSERT_EQ(::stat(packed_.c_str(), &now), 0);
  EXPECT_EQ(now.st_ino, made.st_ino);  // not made again
  const std::string noted = content_of(packed_);
  EXPECT_NE(noted, content);  // so that the next start reads no image
  EXPECT_EQ(noted.substr(0, noted.size() - 32 - images * 40),
            content.substr(0, noted.size() - 32 - images * 40));
  EXPECT_EQ(pixels(*open()), before);
  EXPECT_EQ(content_of(packed_), noted);
}

TEST_F(DiskCache, OnlyACacheIsEverReplaced) {
  const auto refused = [&](const fs::path& file) {
    return test::message_of(ErrorKind::usage, [&] { open(file); });
  };
  for (const std::string text : {"A thesis.", "WHSK", "", "whskpack and more"}) {
    folder_.write(".thesis.txt", text);
    EXPECT_THAT(
        refused(folder_ / ".thesis.txt"),
        testing::AllOf(HasSubstr("data.cache_file: expected a Whisker cache or no file at "),
                       HasSubstr(".thesis.txt"), HasSubstr("another file")));
    EXPECT_EQ(content_of(folder_ / ".thesis.txt"), text);
  }
  fs::create_directory(folder_ / ".folder");
  ASSERT_EQ(::mkfifo((folder_ / ".pipe").c_str(), 0600), 0);
  for (const char* name : {".folder", ".pipe"}) {
    EXPECT_THAT(refused(folder_ / name), HasSubstr("no regular file")) << name;
  }
  fs::create_symlink("nowhere", folder_ / ".dangling");
  fs::create_symlink(".thesis.txt", folder_ / ".to_thesis");
  EXPECT_NE(refused(folder_ / ".dangling"), "");
  EXPECT_NE(refused(folder_ / ".to_thesis"), "");
  EXPECT_TRUE(fs::is_symlink(folder_ / ".dangling"));
  EXPECT_EQ(content_of(folder_ / ".thesis.txt"), "whskpack and more");
  // A link to a cache of other data stays a link; the cache is rebuilt.
  const auto before = pixels(*open());
  fs::create_symlink(".packed", folder_ / ".link");
  EXPECT_NE(pixels(*open(folder_ / ".link", 20)), before);
  EXPECT_TRUE(fs::is_symlink(folder_ / ".link"));
  EXPECT_NE(pixels(*open(20)), before);
  // What an older version or a torn disk left begins as a cache does.
  folder_.write(".packed", "WHSKPACK of another version");
  EXPECT_EQ(pixels(*open()), before);
}

}  // namespace
}  // namespace whisker
