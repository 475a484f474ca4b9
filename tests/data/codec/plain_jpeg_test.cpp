// Which files are plain, and the promise that goes with it: a plain file is one that decode() reads
// without an error, whole and with every code in its place.
#include "data/codec/plain_jpeg.h"

#include "core/error.h"
#include "core/tensor/philox.h"
#include "data/codec/decode.h"
#include "data/codec/exif.h"
#include "tests/support/image_files.h"
#include "tests/support/test_data.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool readable(std::span<const uint8_t> file) {
  try {
    decode(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What a marker walk alone would take: the control of the tests below.
bool ends_with_end_marker(std::span<const uint8_t> file) {
  return file.size() > 2 && file[file.size() - 2] == 0xFF && file[file.size() - 1] == 0xD9;
}

TEST(PlainJpeg, TakesWhatCamerasWriteAndKeepsItsPixels) {
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    for (const int restart_rows : {0, 1, 3}) {
      for (int orientation = 0; orientation <= 8; ++orientation) {
        const test::Buffer file =
            test::write_jpeg(test::sample_image(75, 41), {.h_samples = h,
                                                          .v_samples = v,
                                                          .restart_rows = restart_rows,
                                                          .orientation = orientation});
        const auto plain = plain_jpeg(file);
        ASSERT_TRUE(plain) << h << v << " restart " << restart_rows;
        EXPECT_LE(plain->size(), file.size() + 20);
        EXPECT_EQ(plain_jpeg_again(file), plain);
        EXPECT_EQ(read_header(bytes_of(*plain)).orientation, 1);
        Image stored = decode(bytes_of(*plain)), scratch;
        make_upright(stored, orientation, scratch);
        EXPECT_EQ(stored.rgb, decode(file).rgb);
      }
    }
  }
}

TEST(PlainJpeg, LeavesOtherKindsToTheHost) {
  const Image image = test::sample_image(60, 50);
  const std::pair<const char*, test::JpegSpec> kinds[] = {
      {"gray", {.color = test::JpegColor::gray}}, {"rgb", {.color = test::JpegColor::rgb}},
      {"cmyk", {.color = test::JpegColor::cmyk}}, {"ycck", {.color = test::JpegColor::ycck}},
      {"progressive", {.progressive = true}},     {"4:4:0", {.h_samples = 1, .v_samples = 2}},
      {"4:1:1", {.h_samples = 4, .v_samples = 1}}};
  for (const auto& [name, spec] : kinds) {
    const test::Buffer file = test::write_jpeg(image, spec);
    EXPECT_TRUE(readable(file)) << name;
    EXPECT_FALSE(plain_jpeg(file)) << name;
  }
  EXPECT_FALSE(plain_jpeg(test::write_bmp(image)));
  EXPECT_FALSE(plain_jpeg({}));
}

TEST(PlainJpeg, DropsWhatFollowsTheEnd) {
  test::Buffer file = test::write_jpeg(test::sample_image(33, 47));
  const auto expected = plain_jpeg(file);
  file.insert(file.end(), {0xFF, 0xD8, 1, 2, 3, 0xFF, 0xD9});
  EXPECT_EQ(plain_jpeg(file), expected);
}

TEST(PlainJpeg, EveryCutIsFound) {
  const test::Buffer file = test::write_jpeg(test::sample_image(90, 70), {.restart_rows = 2});
  ASSERT_TRUE(plain_jpeg(file));
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_FALSE(plain_jpeg(std::span(file).first(size))) << size;
    // The end marker put behind what is left, as some tools do.
    test::Buffer closed(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
    closed.insert(closed.end(), {0xFF, 0xD9});
    if (size + 2 < file.size()) {
      ASSERT_FALSE(plain_jpeg(closed)) << size;
    }
  }
}

// T.81 keeps it free, and libjpeg refuses a table that has it.
TEST(PlainJpeg, TheCodeOfAllOnesIsRefused) {
  const test::Buffer good = test::write_jpeg(test::sample_image(40, 50));
  ASSERT_TRUE(plain_jpeg(good));
  // The first table for direct values: 12 codes, the last one's 9 bits all ones but one.
  const uint8_t head[] = {0xFF, 0xC4, 0x00, 0x1F, 0x00, 0, 1, 5, 1, 1, 1, 1, 1, 1, 0};
  test::Buffer file = good;
  const auto table = std::search(file.begin(), file.end(), std::begin(head), std::end(head));
  ASSERT_NE(table, file.end());
  table[3] = 0x20;
  table[5 + 8] = 2;
  file.insert(table + 5 + 16 + 12, uint8_t{0});
  EXPECT_FALSE(readable(file));
  EXPECT_FALSE(plain_jpeg(file));
}

// Files with a few random bytes changed: of those that are still plain, decode() reads every one.
// The end marker alone says nothing: many that have it are refused by decode().
TEST(PlainJpeg, DamagedFilesThatArePlainAreReadable) {
  std::vector<test::Buffer> originals = {
      test::write_jpeg(test::sample_image(80, 60)),
      test::write_jpeg(test::sample_image(64, 64), {.h_samples = 1, .v_samples = 1}),
      test::write_jpeg(test::sample_image(97, 31),
                       {.h_samples = 2, .v_samples = 1, .restart_rows = 1})};
  PhiloxStream random(/*seed=*/7, stream_of("damage"));
  constexpr int mutants = 4000;
  int plain = 0, unreadable = 0, unreadable_with_end = 0;
  for (int i = 0; i < mutants; ++i) {
    test::Buffer file = originals[static_cast<size_t>(i) % originals.size()];
    for (int change = 0; change <= i % 3; ++change) {
      const auto at = static_cast<size_t>(random.uniform() * static_cast<double>(file.size()));
      file[at] = static_cast<uint8_t>(random.uniform() * 256);
    }
    const bool is_readable = readable(file);
    unreadable += !is_readable;
    unreadable_with_end += !is_readable && ends_with_end_marker(file);
    const auto stripped = plain_jpeg(file);
    if (!stripped) continue;
    ++plain;
    ASSERT_TRUE(is_readable) << "mutant " << i;
    ASSERT_TRUE(readable(bytes_of(*stripped))) << "mutant " << i;
  }
  std::printf("mutants: %d, plain %d, unreadable %d, of them with an end marker %d\n", mutants,
              plain, unreadable, unreadable_with_end);
  EXPECT_GT(plain, 100);
  EXPECT_GT(unreadable_with_end, 100);
}

TEST(PlainJpeg, OddFilesThatArePlainAreReadable) {
  const auto root = test::test_data_dir() / "odd_images";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no " << root;
  int files = 0, plain = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const auto file = test::read_bytes(entry.path());
    ++files;
    const auto stripped = plain_jpeg(file);
    if (!stripped) continue;
    ++plain;
    EXPECT_TRUE(readable(file)) << entry.path();
    EXPECT_TRUE(readable(bytes_of(*stripped))) << entry.path();
  }
  std::printf("odd files: %d, plain %d\n", files, plain);
  EXPECT_GT(plain, 20);
}

TEST(PlainJpeg, PhotographsArePlain) {
  const auto root = test::test_data_dir() / "cats_dogs_original";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no " << root;
  int files = 0, plain = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    plain += plain_jpeg(test::read_bytes(entry.path())).has_value();
  }
  EXPECT_EQ(plain, files);
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace whisker
