// WebP: lossless images exact, lossy ones equal to dwebp; cuts, animations and absurd extents
// refused.
#include "core/error.h"
#include "data/codec/decode.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/webp_files.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::Buffer;
using test::WebpSpec;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint8_t animation_flag = 2, exif_flag = 8;
constexpr std::pair<int, int> webp_extents[] = {{61, 47}, {1, 1}, {1, 37}, {203, 8}, {16, 16}};

std::string refusal(std::span<const uint8_t> file, int64_t max_pixels = default_max_pixels) {
  return test::message_of(ErrorKind::data, [&] { decode(file, max_pixels); });
}

uint8_t over_white(int value, int alpha) {
  return static_cast<uint8_t>(std::lround((value * alpha + 255.0 * (255 - alpha)) / 255));
}

TEST(DecodeWebp, LosslessIsExact) {
  for (const auto& [width, height] : webp_extents) {
    for (const bool alpha : {false, true}) {
      const Image source = test::sample_image(width, height);
      const Image image = decode(test::write_webp(source, {.lossless = true, .alpha = alpha}));
      ASSERT_EQ(image.width, width);
      ASSERT_EQ(image.height, height);
      int wrong = 0;
      for (int i = 0; i < 3 * width * height; ++i) {
        const auto at = static_cast<size_t>(i);
        const int opacity = alpha ? test::alpha_at(i / 3 % width, i / 3 / width) : 255;
        wrong += image.rgb[at] != over_white(source.rgb[at], opacity);
      }
      EXPECT_EQ(wrong, 0) << width << "x" << height << (alpha ? " alpha" : "");
    }
  }
}

// The samples that dwebp writes: RGBA.
std::vector<uint8_t> run_dwebp(const Buffer& file, int pixels) {
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in.webp").string(),
                    out = (folder.path() / "out.pam").string();
  std::ofstream(in, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), std::ssize(file));
  if (std::system(("dwebp -quiet -pam " + in + " -o " + out).c_str()) != 0) return {};
  std::ifstream pam(out, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(pam), {}};
  const auto bytes = static_cast<size_t>(4 * pixels);
  if (text.size() < bytes) return {};
  return {text.end() - static_cast<ptrdiff_t>(bytes), text.end()};
}

TEST(DecodeWebp, EqualsDwebp) {
  if (std::system("dwebp -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no dwebp (webp)";
  int compared = 0;
  for (const auto& [width, height] : webp_extents) {
    for (const float quality : {5.f, 75.f, 98.f}) {
      for (const bool alpha : {false, true}) {
        const Buffer file = test::write_webp(test::sample_image(width, height),
                                             {.alpha = alpha, .quality = quality});
        const std::vector<uint8_t> rgba = run_dwebp(file, width * height);
        ASSERT_FALSE(rgba.empty());
        Image image = decode(file);
        const auto differences = [&] {
          int count = 0;
          for (size_t i = 0; i < image.rgb.size(); ++i) {
            const size_t pixel = i / 3 * 4;
            count += image.rgb[i] != over_white(rgba[pixel + i % 3], rgba[pixel + 3]);
          }
          return count;
        };
        EXPECT_EQ(differences(), 0) << width << "x" << height << " quality " << quality;
        image.rgb[image.rgb.size() / 2] ^= 1;  // control
        EXPECT_EQ(differences(), 1);
        ++compared;
      }
    }
  }
  std::printf("compared with dwebp: %d images\n", compared);
}

TEST(DecodeWebp, ExifOrientationIsApplied) {
  const Image source = test::sample_image(9, 5);
  const Buffer plain = test::write_webp(source, {.lossless = true});
  for (const bool prefixed : {false, true}) {
    Buffer exif = test::exif_block(6, true), chunks;
    if (prefixed) exif.insert(exif.begin(), {'E', 'x', 'i', 'f', 0, 0});
    test::append_webp_chunk(chunks, "VP8X", test::extended_header(exif_flag, 9, 5));
    for (const uint8_t byte : test::webp_chunks(plain)) chunks.push_back(byte);
    test::append_webp_chunk(chunks, "EXIF", exif);
    const Image upright = decode(test::riff(chunks));
    ASSERT_EQ(upright.width, 5);
    ASSERT_EQ(upright.height, 9);
    for (int y = 0; y < 9; ++y) {
      for (int x = 0; x < 5; ++x) {
        EXPECT_TRUE(std::equal(upright.row(y) + 3 * x, upright.row(y) + 3 * x + 3,
                               source.row(4 - x) + 3 * y));
      }
    }
  }
}

// Looking at each takes time, and a small file could hold thousands.
TEST(DecodeWebp, ASecondImageIsRefused) {
  const Buffer one =
      test::webp_chunks(test::write_webp(test::sample_image(9, 5), {.lossless = true}));
  Buffer chunks;
  test::append_webp_chunk(chunks, "VP8X", test::extended_header(0, 9, 5));
  for (int i = 0; i < 2; ++i) {
    for (const uint8_t byte : one) chunks.push_back(byte);
  }
  EXPECT_EQ(refusal(test::riff(chunks)),
            "damaged WebP: more than one image or alpha channel in it");
}

TEST(DecodeWebp, AnimationIsRefusedByName) {
  const Buffer frame = test::webp_chunks(test::write_webp(test::sample_image(8, 8)));
  Buffer body(16, 0);
  body[6] = body[9] = 7;  // extents less one
  body.insert(body.end(), frame.begin(), frame.end());
  for (const uint8_t flags : {animation_flag, uint8_t{0}}) {
    Buffer chunks;
    test::append_webp_chunk(chunks, "VP8X", test::extended_header(flags, 8, 8));
    test::append_webp_chunk(chunks, "ANIM", Buffer(6, 0));
    test::append_webp_chunk(chunks, "ANMF", body);
    EXPECT_EQ(refusal(test::riff(chunks)),
              "an animated WebP image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  }
}

TEST(DecodeWebp, CutsAreRefused) {
  for (const WebpSpec& spec : {WebpSpec{}, {.alpha = true}, {.lossless = true}}) {
    const Buffer file = test::write_webp(test::sample_image(61, 47), spec);
    int accepted = 0;
    for (size_t end = 0; end < file.size(); ++end) {
      EXPECT_NE(refusal(std::span(file).first(end)), "no error") << end;
      // With lengths that fit, libwebp can miss the last bytes only.
      if (end < 40 || spec.alpha) continue;
      Buffer chunks;
      test::append_webp_chunk(chunks, {reinterpret_cast<const char*>(file.data()) + 12, 4},
                              std::span(file).subspan(20, end - 20));
      const std::string reason = refusal(test::riff(chunks));
      accepted += reason == "no error";
      EXPECT_THAT(reason, AnyOf("no error", StartsWith("damaged WebP: "))) << end;
    }
    EXPECT_LE(accepted, 4);
  }
}

TEST(DecodeWebp, HugeExtentsAreRefusedByTheirHeader) {
  Buffer chunks, lossless = {0x2F, 0xFF, 0xFF, 0xFF, 0x0F};  // 16384 x 16384
  lossless.resize(64);
  test::append_webp_chunk(chunks, "VP8L", lossless);
  EXPECT_THAT(refusal(test::riff(chunks)), HasSubstr("image too large: 16384x16384"));
  EXPECT_THAT(refusal(test::write_webp(test::sample_image(20, 20)), 399),
              HasSubstr("over data.max_pixels"));
}

// Writes a lossless stream bit by bit.
struct BitWriter {
  Buffer bytes = {};
  int used = 8;  // bits of the last byte
  void put(uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      if (used == 8) bytes.push_back(0), used = 0;
      bytes.back() |= static_cast<uint8_t>((value >> i & 1) << used++);
    }
  }
  // Five prefix codes of the symbol 0 alone, which take no bits.
  void put_codes() {
    for (int i = 0; i < 5; ++i) put(1, 4);
  }
};

// A black image of side x side pixels whose entropy image has an entry for each block of
// 2^block_bits pixels, behind a transform and its own image.
Buffer webp_with_blocks(int side, uint32_t block_bits) {
  BitWriter stream;
  stream.put(0x2F, 8);
  stream.put(static_cast<uint32_t>(side - 1), 14);
  stream.put(static_cast<uint32_t>(side - 1), 14);
  stream.put(0, 4);
  stream.put(1, 1), stream.put(0, 2), stream.put(3, 3);  // a predictor of blocks of 32
  stream.put(0, 1), stream.put_codes();
  stream.put(0, 1);  // no more transforms
  stream.put(0, 1);  // no color cache
  stream.put(1, 1), stream.put(block_bits - 2, 3);
  stream.put(0, 1), stream.put_codes();  // the entropy image: all of group 0
  stream.put_codes();                    // the group, and all pixels of it
  stream.bytes.resize(stream.bytes.size() + 8);
  Buffer chunks;
  test::append_webp_chunk(chunks, "VP8L", stream.bytes);
  return test::riff(chunks);
}

TEST(DecodeWebp, CodesAreWithinTheMemoryBudget) {
  EXPECT_EQ(refusal(webp_with_blocks(512, 9)), "no error");
  EXPECT_EQ(refusal(webp_with_blocks(512, 4)), "no error");  // 1024 groups
  EXPECT_EQ(refusal(webp_with_blocks(512, 2)),
            "WebP with too many codes: up to 16384 groups of them for 512x512 pixels");
  EXPECT_EQ(refusal(webp_with_blocks(1024, 2)),
            "WebP with too many codes: up to 65536 groups of them for 1024x1024 pixels");
  // What an encoder makes of images with many colors has few.
  const Image noisy = test::sample_image(700, 500);
  EXPECT_EQ(decode(test::write_webp(noisy, {.lossless = true, .quality = 100})).rgb, noisy.rgb);
}

TEST(DecodeWebp, FlippedBytesGivePixelsOrAnError) {
  int refused = 0, flips = 0;
  for (const WebpSpec& spec : {WebpSpec{}, {.alpha = true}, {.lossless = true}}) {
    const Buffer file = test::write_webp(test::sample_image(31, 17), spec);
    for (size_t i = 0; i < file.size(); ++i, ++flips) {
      Buffer flipped = file;
      flipped[i] ^= static_cast<uint8_t>(1u << (i % 8));
      refused += refusal(flipped, 1 << 20) != "no error";
    }
  }
  EXPECT_GT(refused, 0);
  std::printf("flipped bytes refused: %d of %d\n", refused, flips);
}

}  // namespace
}  // namespace whisker
