// The collection of odd images: each gives pixels or one error in bounded time, and agrees with
// what Pillow said of it (recorded in INDEX.tsv) but for the differences stated here.
#include "core/error.h"
#include "data/codec/decode.h"
#include "tests/support/test_data.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

// Where we differ from Pillow on purpose: path to whether we read it, with the reason.
const std::map<std::string, bool>& stated_differences() {
  static const std::map<std::string, bool> differences = {
      // Damaged entropy data that Pillow passes on as libjpeg's warning.
      {"jpeg-decoder/crashtest/images/imagetestsuite/8a9cc8eeed66aeb423a91c44111d9450.jpg", false},
      {"jpeg-decoder/crashtest/images/imagetestsuite/f6b4389c3cf0f5997b2e5a4b905aea8d.jpg", false},
      // A bad EXIF block spoils no pixels; bad animation chunks do not spoil the default image.
      {"pillow/images/truncated_exif_dpi.jpg", true},
      {"pillow/images/apng/chunk_no_fctl.png", true},
      // Run-length encoded BMP is not read.
      {"pillow/images/bmp/b/badrle.bmp", false},
      {"pillow/images/bmp/b/rletopdown.bmp", false},
      {"pillow/images/bmp/q/pal8rletrns.bmp", false},
      {"pillow/images/hopper_rle8_grayscale.bmp", false},
      {"pillow/images/hopper_rle8_row_overflow.bmp", false},
      // Any channel masks and header versions, and a palette longer than needed, are read.
      {"pillow/images/bmp/g/rgb32bf.bmp", true},
      {"pillow/images/bmp/q/pal8oversizepal.bmp", true},
      {"pillow/images/bmp/q/rgb32-111110.bmp", true},
      {"pillow/images/bmp/q/rgb32h52.bmp", true},
      {"pillow/images/bmp/q/rgba32h56.bmp", true},
  };
  return differences;
}

TEST(OddImages, PixelsOrOneErrorInAgreementWithPillow) {
  const auto root = test::test_data_dir() / "odd_images";
  std::ifstream index(root / "INDEX.tsv");
  if (!index) GTEST_SKIP() << "no " << root;
  std::string line;
  std::getline(index, line);
  int total = 0;
  int read = 0;
  double slowest = 0;
  while (std::getline(index, line)) {
    std::istringstream cells(line);
    std::string path, bytes, format, mode, extents, progressive, exif, pillow;
    for (std::string* cell :
         {&path, &bytes, &format, &mode, &extents, &progressive, &exif, &pillow}) {
      std::getline(cells, *cell, '\t');
    }
    const auto file = test::read_bytes(root / path);
    ASSERT_EQ(file.size(), std::stoull(bytes)) << path;
    const auto start = std::chrono::steady_clock::now();
    std::string outcome = "ok";
    try {
      const Image image = decode(file);
      const ImageHeader header = read_header(file);
      EXPECT_EQ(header.width, image.width) << path;
      EXPECT_EQ(header.height, image.height) << path;
      if (pillow == "ok") {
        const bool turned = header.orientation >= 5;
        EXPECT_EQ(extents, fmt::format("{}x{}", turned ? image.height : image.width,
                                       turned ? image.width : image.height))
            << path;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << path;
      outcome = error.what();
      EXPECT_EQ(outcome.find('\n'), std::string::npos) << path;
    }
    slowest = std::max(
        slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    bool expected = pillow == "ok" && format != "GIF";  // a format we do not read
    const auto stated = stated_differences().find(path);
    if (stated != stated_differences().end()) {
      EXPECT_NE(stated->second, expected) << path << " is no difference";
      expected = stated->second;
    }
    EXPECT_EQ(outcome == "ok", expected) << path << ": " << outcome << "; Pillow: " << pillow;
    ++total;
    read += outcome == "ok";
  }
  EXPECT_GE(total, 433);
  EXPECT_LT(slowest, 2);
  std::printf("odd images: %d, read %d, refused %d, slowest %.1f ms\n", total, read, total - read,
              1e3 * slowest);
}

// The BMP suite shows one image in many encodings; its page holds the reference as PNG.
TEST(OddImages, BmpEncodingsOfOneImageAreEqual) {
  const auto root = test::test_data_dir() / "odd_images" / "pillow" / "images" / "bmp";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "no " << root;
  const std::pair<const char*, std::vector<const char*>> groups[] = {
      {"html/pal4.png", {"g/pal4.bmp"}},
      {"html/pal8.png",
       {"g/pal8.bmp", "g/pal8topdown.bmp", "g/pal8v4.bmp", "g/pal8v5.bmp", "g/pal8os2.bmp",
        "q/pal8offs.bmp", "q/pal8oversizepal.bmp"}},
      {"html/rgb16.png", {"g/rgb16.bmp"}},
      {"html/rgb24.png",
       {"q/rgb24largepal.bmp", "q/rgb24lprof.bmp", "g/rgb32bf.bmp", "q/rgb32fakealpha.bmp",
        "q/rgb32h52.bmp"}}};
  for (const auto& [reference, encodings] : groups) {
    const Image expected = decode(test::read_bytes(root / reference));
    for (const char* encoding : encodings) {
      const Image image = decode(test::read_bytes(root / encoding));
      ASSERT_EQ(image.rgb.size(), expected.rgb.size()) << encoding;
      int most = 0;  // the suite's own palettes differ by 1 from its PNG
      for (size_t i = 0; i < image.rgb.size(); ++i) {
        most = std::max(most, std::abs(image.rgb[i] - expected.rgb[i]));
      }
      EXPECT_LE(most, 1) << encoding;
    }
  }
}

}  // namespace
}  // namespace whisker
