// PBM, PGM and PPM in text and in bytes, of every sample width, against plain arithmetic; what is
// cut or damaged is one error.
#include "core/error.h"
#include "data/codec/decode.h"
#include "data/codec/unsupported_formats.h"
#include "tests/support/error_of.h"

#include <cmath>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

std::span<const uint8_t> bytes_in(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

uint32_t pnm_sample(int x, int y, int c, uint32_t most) {
  return static_cast<uint32_t>(x * 7919 + y * 104729 + c * 613) % (most + 1);
}

// A width x height file of kind P1 to P6 with sample (x, y, c) as pnm_sample() gives it.
std::string write_pnm(int kind, int width, int height, uint32_t most) {
  const bool text = kind <= 3, bits = kind == 1 || kind == 4;
  const int channels = kind == 3 || kind == 6 ? 3 : 1;
  std::string file = fmt::format("P{}\n# a comment\n{} {}\n", kind, width, height);
  if (!bits) file += fmt::format("{}\n", most);
  for (int y = 0; y < height; ++y) {
    std::string row;
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const uint32_t sample = pnm_sample(x, y, c, most);
        if (text) {
          row += bits ? fmt::format("{}", sample) : fmt::format("{} ", sample);
        } else if (bits) {
          if (x % 8 == 0) row += '\0';
          row.back() = static_cast<char>(row.back() | static_cast<char>(sample << (7 - x % 8)));
        } else {
          if (most > 255) row += static_cast<char>(sample >> 8);
          row += static_cast<char>(sample & 255);
        }
      }
    }
    file += text ? row + "\n" : row;
  }
  return file;
}

TEST(DecodePnm, EveryKindIsExact) {
  for (int kind = 1; kind <= 6; ++kind) {
    const bool bits = kind == 1 || kind == 4;
    for (const uint32_t most : {1u, 2u, 100u, 255u, 256u, 4095u, 65535u}) {
      if (bits && most != 1) continue;
      for (const auto& [width, height] : {std::pair{29, 5}, {1, 1}, {8, 3}, {9, 2}}) {
        const std::string file = write_pnm(kind, width, height, most);
        const Image image = decode(bytes_in(file));
        ASSERT_EQ(image.width, width);
        ASSERT_EQ(image.height, height);
        EXPECT_EQ(read_header(bytes_in(file)).width, width);
        EXPECT_EQ(read_header(bytes_in(file)).kind, ImageKind::pnm);
        int wrong = 0;
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            for (int c = 0; c < 3; ++c) {
              const bool color = kind == 3 || kind == 6;
              const uint32_t sample = pnm_sample(x, y, color ? c : 0, most);
              const double expected =
                  bits ? 255.0 * (1 - sample) : std::floor(255.0 * sample / most + 0.5);
              wrong += image.row(y)[3 * x + c] != expected;
            }
          }
        }
        EXPECT_EQ(wrong, 0) << "P" << kind << " of maximum " << most << ", " << width;
        if (file.size() < 40) continue;
        // Of text, what is cut within the last number is another number.
        const size_t last = kind <= 3 ? file.find_last_not_of(" \n") : file.size() - 1;
        const size_t end = kind == 2 || kind == 3 ? file.find_last_of(" \n", last) : last;
        for (size_t cut = 0; cut <= end; cut += cut + 9 < end ? 3 : 1) {
          EXPECT_TRUE(
              test::refused(ErrorKind::data, [&] { decode(bytes_in(file.substr(0, cut))); }))
              << "P" << kind << " cut at " << cut;
        }
      }
    }
  }
}

// The maximum 65535 says 16 bits, as a PNG does, where a sensor's samples have fewer.
TEST(DecodePnm, FilesOf16BitsMayHoldFewer) {
  const auto decoded = [](const std::string& file, int bits) {
    Decoded out;
    decode(bytes_in(file), {.rules = {.png_bits = bits}}, out);
    return out;
  };
  const std::string deep("P5 3 1 65535\n\x0f\xff\x00\x10\xff\xff", 19);
  for (const std::string& file : {deep, std::string("P2 3 1 65535 4095 16 65535")}) {
    EXPECT_THAT(decoded(file, 12).image.rgb,
                testing::ElementsAre(255, 255, 255, 1, 1, 1, 255, 255, 255));
    EXPECT_EQ(decoded(file, 16).image.rgb[0], 16);
    EXPECT_EQ(decoded(file, 16).largest_sample, 65535u);
  }
  // Another maximum is what the samples are measured by.
  EXPECT_EQ(decoded("P2 1 1 4095 4095", 8).image.rgb[0], 255);
  EXPECT_EQ(decoded("P2 1 1 4095 2048", 8).image.rgb[0], 128);
  EXPECT_EQ(decoded("P2 1 1 4095 2048", 8).largest_sample, 0u);
}

TEST(DecodePnm, HeadersMayHoldCommentsAndAnyBlanks) {
  const std::string file = "P5#one\r#two\n\t 2# three\n 1\n#four\n255\n\x10\x20rest";
  const Image image = decode(bytes_in(file));
  EXPECT_EQ(image.rgb, (std::vector<uint8_t>{16, 16, 16, 32, 32, 32}));
  EXPECT_EQ(decode(bytes_in("P1 3 1 1 0#x\n1")).rgb,
            (std::vector<uint8_t>{0, 0, 0, 255, 255, 255, 0, 0, 0}));
  // Above the maximum: the maximum in bytes, an error in text.
  EXPECT_EQ(decode(bytes_in("P5 1 1 100\n\xC8")).rgb, (std::vector<uint8_t>{255, 255, 255}));
}

TEST(DecodePnm, WhatIsDamagedIsNamed) {
  const auto reason = [](const std::string& file) {
    return test::message_of(ErrorKind::data, [&] { decode(bytes_in(file)); });
  };
  EXPECT_EQ(reason("P5 2 2 255\nabc"), "truncated PNM: 2x2 pixels do not fit in 14 bytes");
  EXPECT_EQ(reason("P5 2 2 0\nabcd"), "damaged PNM: maximum 0");
  EXPECT_EQ(reason("P5 2 2 65536\nabcd"), "damaged PNM: maximum above 65535");
  EXPECT_EQ(reason("P6 2"), "truncated PNM: no height");
  EXPECT_EQ(reason("P6 2 -1 255\n"), "damaged PNM: no height at byte 5");
  EXPECT_EQ(reason("P2 1 1 10\n11     "), "damaged PNM: sample above 10");
  EXPECT_EQ(reason("P1 2 1\n12      "), "damaged PNM: no bit at byte 8");
  EXPECT_THAT(reason("P6 0 1 255\n"), HasSubstr("without pixels"));
  EXPECT_THAT(reason("P6 99999999999999999999 1 255\n"), HasSubstr("width above"));
  EXPECT_THAT(reason("P6 65535 65535 255\n"), HasSubstr("over data.max_pixels"));
  EXPECT_THAT(reason("P6 60000 1000 255\nxx"), HasSubstr("do not fit"));
  EXPECT_THAT(reason("P7\nWIDTH 1\n"), HasSubstr("a PAM image"));
  EXPECT_THAT(reason("P3 is the third player\n"), HasSubstr("a text file"));
}

}  // namespace
}  // namespace whisker
