// `data check`, `data stats` and `data generate`.
#include "core/error.h"
#include "core/io/file.h"
#include "data/files/new_file.h"
#include "data/images/png_bits.h"
#include "data/sequences/rows_input.h"
#include "data/synthetic/generate.h"
#include "data/tools/check.h"
#include "data/tools/statistics.h"
#include "tests/core/io/faulty_calls.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

std::string text_of(const test::Buffer& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string jpeg(int width, int height) {
  return text_of(test::write_jpeg(test::sample_image(width, height)));
}

Image flat(int width, int height, std::array<uint8_t, 3> color) {
  Image image;
  image.reshape(height, width);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = color[i % 3];
  return image;
}

// Sensors of 12 bits in files of 16: as they are, they are nearly black.
TEST(PngBits, AreTheFewestThatHoldTheSamples) {
  for (const auto& [largest, bits] : {std::pair{65535u, 16},
                                      {16384u, 16},
                                      {16383u, 14},
                                      {4095u, 12},
                                      {1023u, 10},
                                      {255u, 8},
                                      {3u, 8},
                                      {0u, 16}}) {
    TemporaryFolder folder;
    for (const uint32_t most : {largest / 2, largest}) {
      folder.write(fmt::format("a/{}.png", most),
                   test::write_png({.width = 2, .height = 1, .bit_depth = 16, .color_type = 0},
                                   [&](int x, int, int) { return x == 0 ? 0 : most; }));
      folder.write(fmt::format("b/{}.png", most),
                   test::write_png({.width = 2, .height = 1}, [](int, int, int) { return 200u; }));
    }
    folder.write("b/sensor.pgm", fmt::format("P2 1 1 65535 {}", largest));
    folder.write("b/scaled.pgm", "P2 1 1 4095 4095");
    folder.write("b/cut.png", "\x89PNG\r\n\x1a\n");
    const ImageFolder images = open_image_folder(folder.path());
    const PngBits found = find_png_bits(images, 0);
    EXPECT_EQ(found.bits, bits) << largest;
    EXPECT_EQ(found.files, largest == 0 ? 2 : 3);
    EXPECT_EQ(found.largest, largest);
    EXPECT_EQ(found.note().empty(), bits == 16);
    // Every value of a 16-bit sample; what is above the bits is white.
    Decoded decoded;
    const std::string file =
        read_file(folder / fmt::format("a/{}.png", largest), 1 << 20, ErrorKind::data);
    decode(bytes_of(file), {.rules = {.png_bits = bits}}, decoded);
    EXPECT_EQ(decoded.image.rgb[3], largest >> (bits - 8)) << largest;
    decode(bytes_of(file), {.rules = {.png_bits = 8}}, decoded);
    EXPECT_EQ(decoded.image.rgb[3], std::min(largest, 255u));
    decode(bytes_of(file), {}, decoded);
    EXPECT_EQ(decoded.image.rgb[3], largest >> 8);
  }
}

TEST(PngBits, SaysWhatIsDarkOrTooLarge) {
  PngBits found{.files = 3, .read = 3};
  for (const uint32_t sample : {55000u, 4095u, 4096u}) found.add(sample, 16);
  EXPECT_EQ(
      found.note(),
      "data.png_bits is 16: the largest sample in 3 of 3 files of 16 bits is 55000, but 1 has "
      "samples below 4096 alone and is nearly black");
  EXPECT_EQ(
      found.dark_note(16),
      "1 file of 16 bits holds samples up to 4095 and looks dark, as the weights read 16 bits: "
      "--input png_bits=12 reads 12 bits");
  EXPECT_EQ(clipped_note(55000, 12),
            "is 55000, and the weights read 12 bits, up to 4095. --input png_bits=16 reads all "
            "samples, --input png_bits=12 larger ones as white");
  EXPECT_EQ(clipped_note(4095, 12), "");
  PngBits sensor{.files = 40, .read = 32};
  sensor.add(3000, 12);
  EXPECT_THAT(sensor.note(), HasSubstr("larger samples of the others are white"));
  EXPECT_THAT(sensor.dark_note(14), HasSubstr("32 files of 16 bits hold samples up to 3000"));
  EXPECT_EQ(sensor.dark_note(12), "");
}

// Of every format that has it, also where a chunk of transparent colours is far behind.
TEST(Alpha, IsCountedByTheFilesBeginning) {
  TemporaryFolder folder;
  const auto gray = [](int, int, int) { return 200u; };
  folder.write("a/rgb.png", test::write_png({.width = 2, .height = 1}, gray));
  folder.write("a/rgba.png", test::write_png({.width = 2, .height = 1, .color_type = 6}, gray));
  folder.write("a/gray.png", test::write_png({.width = 2, .height = 1, .color_type = 4}, gray));
  folder.write("b/key.png", test::write_png({.width = 2,
                                             .height = 1,
                                             .transparency = {0, 200, 0, 200, 0, 200},
                                             .exif = test::Buffer(4000)},
                                            gray));
  folder.write("b/plain.bmp", text_of(test::write_bmp(flat(2, 1, {1, 2, 3}))));
  // The headers of a lossless and an extended file.
  const auto webp = [&](const char* name, const std::string& chunk) {
    folder.write(name, "RIFF" + std::string(4, '\0') + "WEBP" + chunk + std::string(20, '\0'));
  };
  const std::string size(4, '\0');
  webp("b/lossless.webp", "VP8L" + size + "\x2f" + std::string(3, '\0') + "\x10");
  webp("b/extended.webp", "VP8X" + size + "\x10");
  webp("b/opaque.webp", "VP8X" + size + "\x08");
  webp("b/lossy.webp", "VP8 " + size + "\x10");
  EXPECT_EQ(open_image_folder(folder.path()).use(),
            "9 of 9 files used; 5 have an alpha channel: transparent pixels become white");
}

TEST(DataCheck, FindsBadFilesAndDuplicates) {
  TemporaryFolder folder;
  folder.write("train/cat/0.jpg", jpeg(20, 20));
  folder.write("train/cat/1.jpg", jpeg(21, 20));
  folder.write("train/cat/2.jpg", jpeg(21, 20));                 // the same file twice
  folder.write("train/cat/3.jpg", jpeg(22, 20).substr(0, 300));  // cut
  folder.write("train/dog/0.jpg", jpeg(23, 20));
  folder.write("train/dog/1.jpg", jpeg(20, 20));  // also a cat
  folder.write("val/cat/0.jpg", jpeg(24, 20));
  folder.write("val/dog/0.jpg", jpeg(23, 20));  // also in train
  folder.write("val/dog/empty.png", "");
  // The same pixels in other bytes.
  const Image red = flat(9, 9, {200, 10, 10});
  folder.write("val/cat/1.bmp", text_of(test::write_bmp(red)));
  folder.write("val/cat/2.png",
               text_of(test::write_png({.width = 9, .height = 9},
                                       [](int, int, int c) { return c == 0 ? 200u : 10u; })));
  const ImageFolder train = open_image_folder(folder / "train");
  const ImageFolder val = open_image_folder(folder / "val");
  int64_t last_done = 0;
  const auto progress = [&](int64_t done, int64_t) { last_done = done; };
  const CheckResult result = check_images(train, &val, {.progress = progress});
  EXPECT_EQ(last_done, val.size());
  EXPECT_EQ(result.images, 11);
  ASSERT_EQ(result.bad.size(), 2u);
  EXPECT_FALSE(result.bad[0].in_val);
  EXPECT_EQ(train.files[static_cast<size_t>(result.bad[0].index)].path, "cat/3.jpg");
  EXPECT_FALSE(result.bad[0].reason.empty());
  EXPECT_TRUE(result.bad[1].in_val);
  EXPECT_EQ(val.files[static_cast<size_t>(result.bad[1].index)].path, "dog/empty.png");

  ASSERT_EQ(result.duplicates.size(), 4u);
  const auto& [across_classes, within, across_splits, pixels] = std::tie(
      result.duplicates[0], result.duplicates[1], result.duplicates[2], result.duplicates[3]);
  EXPECT_TRUE(across_classes.across_classes && across_classes.same_bytes);
  EXPECT_FALSE(across_classes.across_splits);
  EXPECT_FALSE(within.across_classes || within.across_splits);
  EXPECT_EQ(within.files.size(), 2u);
  EXPECT_TRUE(across_splits.across_splits);
  EXPECT_FALSE(across_splits.across_classes);
  EXPECT_FALSE(pixels.same_bytes);
  EXPECT_TRUE(pixels.files[0].in_val && pixels.files[1].in_val);
  EXPECT_EQ(result.duplicates_across_splits, 1);
  EXPECT_EQ(result.duplicates_across_classes, 1);

  EXPECT_TRUE(check_images(train, nullptr).duplicates.size() == 2);
}

// What a run would refuse at its first mistake is named all at once, and the images are looked at.
TEST(DataCheck, GoesOnPastProblemsOfTheFolders) {
  TemporaryFolder folder;
  folder.write("train/cat/0.jpg", jpeg(20, 20));
  folder.write("train/cat/1.jpg", "no image");
  folder.write("train/dog/0.jpg", jpeg(21, 20));
  folder.write("train/cow/notes.txt", "no image");
  folder.write("train/\xff\xfe/0.jpg", jpeg(22, 20));
  folder.write("val/dog/0.jpg", jpeg(21, 20));
  std::vector<std::string> problems;
  const auto open = [&](const char* name) {
    return open_image_folder(folder / name, {.name = name, .problems = &problems});
  };
  const ImageFolder train = open("train");
  const ImageFolder val = open("val");
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_THAT(problems[0], HasSubstr("train: no images in the class folders 'cow'"));
  EXPECT_THAT(problems[1], HasSubstr("train: expected class names in UTF-8, got '\\xff\\xfe'"));
  EXPECT_THAT(problems[2], HasSubstr("val: expected at least two classes"));
  const CheckResult result = check_images(train, &val);
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_THAT(result.problems[0], HasSubstr("only in train"));
  EXPECT_EQ(result.images, 5);
  EXPECT_EQ(result.bad.size(), 1u);
  ASSERT_EQ(result.duplicates.size(), 1u);  // classes are told apart by name, not by number
  EXPECT_TRUE(result.duplicates[0].across_splits);
  EXPECT_FALSE(result.duplicates[0].across_classes);
}

TEST(DataCheck, NamesEveryBadImageOfTheOddOnes) {
  const auto root = test::test_data_dir() / "odd_images";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << root << " is missing";
  const ImageFolder odd = open_image_folder(root);
  const CheckResult result = check_images(odd, nullptr);
  EXPECT_EQ(result.images, odd.size());
  EXPECT_GT(result.bad.size(), 10u);
  EXPECT_LT(std::ssize(result.bad), odd.size());
  for (const BadFile& bad : result.bad) EXPECT_FALSE(bad.reason.empty());
}

TEST(DataStatistics, CountsClassesSizesAndChannels) {
  TemporaryFolder folder;
  folder.write("a/0.bmp", text_of(test::write_bmp(flat(10, 20, {255, 0, 51}))));
  folder.write("a/1.bmp", text_of(test::write_bmp(flat(30, 20, {0, 0, 51}))));
  folder.write("b/0.bmp", text_of(test::write_bmp(flat(100, 128, {0, 255, 51}))));
  folder.write("b/1.jpg", "broken");
  const FolderStatistics stats = folder_statistics(open_image_folder(folder.path()));
  ASSERT_EQ(stats.classes.size(), 2u);
  EXPECT_EQ(stats.classes[1].name, "b");
  EXPECT_EQ(stats.classes[1].files, 2);
  EXPECT_GT(stats.classes[0].bytes, 200u * 3 + 600 * 3);
  EXPECT_EQ(stats.images, 3);
  ASSERT_EQ(stats.unreadable.size(), 1u);
  EXPECT_EQ(stats.unreadable[0].path, "b/1.jpg");
  EXPECT_NE(stats.unreadable[0].reason, "");
  EXPECT_EQ(stats.min_width, 10);
  EXPECT_EQ(stats.max_width, 100);
  EXPECT_EQ(stats.min_height, 20);
  EXPECT_EQ(stats.max_height, 128);
  EXPECT_NEAR(stats.mean_width, 140.0 / 3, 1e-9);
  ASSERT_EQ(stats.short_sides.size(), 4u);  // 8, 16, 32, 64
  EXPECT_EQ(stats.short_sides[0].from, 8);
  EXPECT_EQ(stats.short_sides[0].count, 1);
  EXPECT_EQ(stats.short_sides[1].count, 1);
  EXPECT_EQ(stats.short_sides[2].count, 0);
  EXPECT_EQ(stats.short_sides[3].to, 128);
  // 200 red, 600 black, 12,800 green pixels; blue is 0.2 everywhere.
  const double red = 200.0 / 13600;
  EXPECT_NEAR(stats.mean[0], red, 1e-12);
  EXPECT_NEAR(stats.deviation[0], std::sqrt(red * (1 - red)), 1e-12);
  EXPECT_NEAR(stats.mean[1], 12800.0 / 13600, 1e-12);
  EXPECT_NEAR(stats.mean[2], 0.2, 1e-12);
  EXPECT_NEAR(stats.deviation[2], 0, 1e-7);
}

std::map<std::string, std::string> content_of(const std::filesystem::path& root) {
  std::map<std::string, std::string> files;
  for (const WalkedFile& file : walk_files(root, "test").files) {
    files[file.path] = read_file(root / file.path, 1 << 24, ErrorKind::data);
  }
  return files;
}

TEST(DataGenerate, DrawsTheSameImagesForTheSameSeed) {
  TemporaryFolder folder;
  const auto generate = [&](const char* name, uint64_t seed, int workers) {
    return generate_images({.folder = folder / name,
                            .train_per_class = 5,
                            .val_per_class = 2,
                            .seed = seed,
                            .workers = workers});
  };
  EXPECT_GT(generate("a", 3, 1), 14'000u);
  generate("b", 3, 4);
  generate("c", 4, 2);
  EXPECT_EQ(content_of(folder / "a"), content_of(folder / "b"));
  EXPECT_NE(content_of(folder / "a"), content_of(folder / "c"));
  EXPECT_THAT(content_of(folder / "a")["README.txt"], HasSubstr("no photographs"));
  EXPECT_THAT(content_of(folder / "a")["val/dog/dog.5.jpg"], HasSubstr("dog face drawn by"));

  const ImageFolder train = open_image_folder(folder / "a/train");
  const ImageFolder val = open_image_folder(folder / "a/val");
  EXPECT_EQ(train.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(train.counts(), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(val.counts(), (std::vector<int64_t>{2, 2}));
  const CheckResult check = check_images(train, &val);
  EXPECT_TRUE(check.bad.empty());
  EXPECT_TRUE(check.duplicates.empty());
  const FolderStatistics stats = folder_statistics(train);
  EXPECT_GE(std::min(stats.min_height, stats.min_width), 128);
  EXPECT_LE(std::max(stats.max_height, stats.max_width), 200);
  for (const double deviation : stats.deviation) EXPECT_GT(deviation, 0.1);
}

TEST(DataGenerate, DrawsTheSameWavesForTheSameSeed) {
  TemporaryFolder folder;
  const auto generate = [&](const char* name, uint64_t seed) {
    return generate_waves(
        {.folder = folder / name, .train_per_class = 5, .val_per_class = 2, .seed = seed});
  };
  EXPECT_GT(generate("a", 3), 10'000u);
  generate("b", 3);
  generate("c", 4);
  EXPECT_EQ(content_of(folder / "a"), content_of(folder / "b"));
  EXPECT_NE(content_of(folder / "a"), content_of(folder / "c"));
  const LabelledRows rows =
      read_labelled_rows(folder / "a/train.csv", {.features = 10, .max_bad = 0});
  EXPECT_EQ(std::ranges::count(rows.labels, "left"), 5);
  EXPECT_EQ(std::ranges::count(rows.labels, "right"), 5);
  EXPECT_THROW(generate("a", 5), Error) << "there are files";
}

TEST(NewFile, EveryFailingCallIsADiskErrorAndLeavesNothing) {
  int failures = 0;
  for (int index = 0;; ++index) {
    const TemporaryFolder folder;
    const FaultyCalls calls(index, ENOSPC);
    const std::string text = "written whole or not at all";
    try {
      write_new_file(folder / "new", std::as_bytes(std::span(text)), calls);
      EXPECT_EQ(calls.failed_call(), "");
      break;  // every call has had its turn
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disk);
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "new")) << calls.failed_call();
    ++failures;
  }
  EXPECT_EQ(failures, 3);  // open, write, close
}

TEST(DataGenerate, TouchesNothingThatIsThere) {
  TemporaryFolder folder;
  folder.write("mine/photo.jpg");
  EXPECT_THROW(generate_images({.folder = folder / "mine"}), Error);
  EXPECT_EQ(content_of(folder.path()).size(), 1u);
}

}  // namespace
}  // namespace whisker
