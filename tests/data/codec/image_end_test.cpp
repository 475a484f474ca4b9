// Where images of every format end, with something behind them and cut.
#include "data/codec/image_end.h"

#include "tests/support/webp_files.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

test::Buffer buffer_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::vector<std::pair<const char*, test::Buffer>> images_that_end() {
  const Image image = test::sample_image(33, 20);
  return {
      {"JPEG", test::write_jpeg(image)},
      {"progressive JPEG", test::write_jpeg(image, {.progressive = true, .orientation = 6})},
      {"JPEG with restarts", test::write_jpeg(image, {.separate_scans = true, .restart_rows = 1})},
      {"PNG",
       test::write_png({.width = 5, .height = 4},
                       [](int x, int y, int c) { return static_cast<uint32_t>(x + y + c); })},
      {"BMP", test::write_bmp(image)},
      {"WebP", test::write_webp(image)},
      {"lossless WebP", test::write_webp(image, {.lossless = true})},
      {"P6", buffer_of("P6\n# two by one\n2 1\n255\nabcdef")},
      {"P5 of 16 bits", buffer_of("P5 2 2 65535\nabcdefgh")},
      {"P4", buffer_of("P4\n9 2\nabcd")}};
}

TEST(ImageEnd, IsWhereTheFirstImageEnds) {
  for (const auto& [name, image] : images_that_end()) {
    EXPECT_EQ(image_end(image), image.size()) << name;
    for (const auto& [other, next] : images_that_end()) {
      test::Buffer both = image;
      both.insert(both.end(), next.begin(), next.end());
      EXPECT_EQ(image_end(both), image.size()) << name << ", then " << other;
    }
  }
}

TEST(ImageEnd, AThumbnailsEndIsNotTheImages) {
  test::Buffer jpeg = test::write_jpeg(test::sample_image(8, 8));
  const test::Buffer segment = buffer_of(std::string("\xff\xe1\0\x06\xff\xd9xx", 8));
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  EXPECT_EQ(image_end(jpeg), jpeg.size());
}

TEST(ImageEnd, OfACutImageIsNothing) {
  for (const auto& [name, image] : images_that_end()) {
    for (size_t size = 0; size < image.size(); ++size) {
      EXPECT_EQ(image_end(std::span(image).first(size)), std::nullopt) << name << " of " << size;
    }
  }
  EXPECT_EQ(image_end(buffer_of("P1\n2 1\n0 1\n")), std::nullopt);
  EXPECT_EQ(image_end(buffer_of("a text")), std::nullopt);
}

}  // namespace
}  // namespace whisker
