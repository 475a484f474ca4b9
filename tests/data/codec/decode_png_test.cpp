// PNG and BMP: every kind exact against its definition, cuts and flipped bytes refused (with the
// unguarded decoder as the control), bombs stopped by the allocation budget.
#include "core/error.h"
#include "data/codec/decode.h"
#include "tests/support/error_of.h"
#include "tests/support/image_files.h"
#include "tests/support/unguarded_decoders.h"
#include "tests/support/webp_files.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace whisker {
namespace {

using test::Buffer;
using test::PngSpec;

// Samples that use the whole range and differ in x, y and channel.
uint32_t sample_at(const PngSpec& spec, int x, int y, int c) {
  const uint32_t mixed =
      static_cast<uint32_t>(x * 7919 + y * 104729 + c * 15485863 + 12345) * 2654435761u;
  return mixed >> (32 - spec.bit_depth);
}

uint8_t to_8_bits(uint32_t sample, int depth) {
  if (depth == 16) return static_cast<uint8_t>(sample >> 8);
  return static_cast<uint8_t>(sample * 255 / ((1u << depth) - 1));
}

uint8_t composite(double value, double alpha) {
  return static_cast<uint8_t>((value * alpha + 255 * (255 - alpha)) / 255 + 0.5);
}

uint32_t big_endian16(const Buffer& bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at] << 8 | bytes[at + 1]);
}

// The RGB of pixel (x, y) by Note [Image rules], straight from the samples.
std::array<uint8_t, 3> expected_rgb(const PngSpec& spec, int x, int y) {
  const auto at = [&](int c) { return sample_at(spec, x, y, c); };
  std::array<uint8_t, 3> rgb{};
  double alpha = 255;
  if (spec.color_type == 3) {
    const size_t index = at(0);
    if (3 * index + 2 < spec.palette.size()) {
      for (size_t c = 0; c < 3; ++c) rgb[c] = spec.palette[3 * index + c];
    }
    if (index < spec.transparency.size()) alpha = spec.transparency[index];
  } else {
    const bool gray = spec.color_type == 0 || spec.color_type == 4;
    for (int c = 0; c < 3; ++c)
      rgb[static_cast<size_t>(c)] = to_8_bits(at(gray ? 0 : c), spec.bit_depth);
    if (spec.color_type >= 4) alpha = to_8_bits(at(gray ? 1 : 3), spec.bit_depth);
    bool keyed = !spec.transparency.empty();
    for (int c = 0; c < test::png_channels(spec.color_type) && keyed; ++c) {
      keyed = at(c) == big_endian16(spec.transparency, static_cast<size_t>(2 * c));
    }
    if (keyed) alpha = 0;
  }
  for (auto& value : rgb) value = composite(value, alpha);
  return rgb;
}

std::vector<PngSpec> png_kinds(int width, int height) {
  std::vector<PngSpec> kinds;
  const std::vector<std::pair<int, std::vector<int>>> depths = {
      {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}};
  for (const bool interlaced : {false, true}) {
    for (const auto& [color_type, list] : depths) {
      for (const int depth : list) {
        PngSpec spec{.width = width,
                     .height = height,
                     .bit_depth = depth,
                     .color_type = color_type,
                     .interlaced = interlaced};
        if (color_type == 3) {
          const int entries =
              depth == 8 ? 200 : 1 << depth;  // at 8 bits some indices lie past the end
          for (int i = 0; i < 3 * entries; ++i)
            spec.palette.push_back(static_cast<uint8_t>(i * 37 + 11));
        }
        kinds.push_back(spec);
        if (color_type == 3) {
          spec.transparency = {0, 128};
          kinds.push_back(spec);
        } else if (color_type < 3) {
          for (int c = 0; c < test::png_channels(color_type); ++c) {
            const uint32_t key = sample_at(spec, width / 2, height / 2, c);
            spec.transparency.push_back(static_cast<uint8_t>(key >> 8));
            spec.transparency.push_back(static_cast<uint8_t>(key));
          }
          kinds.push_back(spec);
        }
      }
    }
  }
  return kinds;
}

Buffer write(const PngSpec& spec) {
  return test::write_png(spec, [&](int x, int y, int c) { return sample_at(spec, x, y, c); });
}

std::string name_of(const PngSpec& spec) {
  return fmt::format("{}x{} type {} depth {}{}{}", spec.width, spec.height, spec.color_type,
                     spec.bit_depth, spec.interlaced ? " interlaced" : "",
                     spec.transparency.empty() ? "" : " tRNS");
}

TEST(DecodePng, EveryKindIsExact) {
  int compared = 0;
  for (const auto& [width, height] : {std::pair{29, 23}, {1, 1}, {1, 9}, {13, 1}, {3, 4}}) {
    for (const PngSpec& spec : png_kinds(width, height)) {
      const Image image = decode(write(spec));
      ASSERT_EQ(image.width, width);
      ASSERT_EQ(image.height, height);
      int wrong = 0;
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const auto rgb = expected_rgb(spec, x, y);
          wrong += !std::equal(rgb.begin(), rgb.end(), image.row(y) + 3 * x);
        }
      }
      EXPECT_EQ(wrong, 0) << name_of(spec);
      ++compared;
    }
  }
  std::printf("PNG kinds compared exactly: %d\n", compared);
}

TEST(DecodePng, ExifOrientationIsApplied) {
  PngSpec spec{.width = 9, .height = 5};
  const Image stored = decode(write(spec));
  spec.exif = test::exif_block(6, true);
  const Image upright = decode(write(spec));
  ASSERT_EQ(upright.width, 5);
  ASSERT_EQ(upright.height, 9);
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 5; ++x) {
      EXPECT_TRUE(std::equal(upright.row(y) + 3 * x, upright.row(y) + 3 * x + 3,
                             stored.row(4 - x) + 3 * y));
    }
  }
}

bool refused(std::span<const uint8_t> bytes) {
  return test::refused(ErrorKind::data, [&] { decode(bytes); });
}

TEST(DecodePng, EveryFlippedByteIsRefused) {
  int flips = 0;
  int accepted = 0;
  int control_accepts = 0;
  for (const PngSpec& spec : png_kinds(12, 7)) {
    const Buffer file = write(spec);
    for (size_t i = 0; i < file.size(); ++i) {
      Buffer flipped = file;
      flipped[i] ^= static_cast<uint8_t>(1u << (i % 8));
      accepted += !refused(flipped);
      control_accepts += test::unguarded_stb_accepts(flipped);
      ++flips;
    }
  }
  EXPECT_EQ(accepted, 0);
  EXPECT_GT(control_accepts, 0) << "control: unguarded stb_image must take damaged files";
  std::printf("flipped bytes accepted: 0 of %d; control: %d\n", flips, control_accepts);
}

TEST(DecodePng, CutsAreRefused) {
  int cuts = 0;
  for (const PngSpec& spec : png_kinds(31, 17)) {
    const Buffer file = write(spec);
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_TRUE(refused(std::span(file).first(i == 49 ? file.size() - 1 : file.size() * i / 49)));
      ++cuts;
    }
  }
  std::printf("cuts accepted: 0 of %d\n", cuts);
}

// A file of `width` x `height` 8-bit gray pixels whose data chunk is `data`.
Buffer png_with_data(uint32_t width, uint32_t height, std::span<const uint8_t> data) {
  Buffer file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Buffer header;
  for (const uint32_t side : {width, height}) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<uint8_t>(side >> shift));
  }
  header.insert(header.end(), {8, 0, 0, 0, 0});
  test::append_png_chunk(file, "IHDR", header);
  test::append_png_chunk(file, "IDAT", data);
  test::append_png_chunk(file, "IEND", {});
  return file;
}

TEST(DecodePng, ZlibBombStopsAtTheAllocationBudget) {
  const Buffer bomb = test::deflate(Buffer(size_t{64} << 20, 0));
  EXPECT_EQ(test::message_of(ErrorKind::data, [&] { decode(png_with_data(4, 4, bomb)); }),
            "damaged PNG: its data unpack to more than its 4x4 pixels");
}

// Deflate knows block types 0 to 2; stb_image refuses type 3 without a reason.
TEST(DecodePng, AReasonIsGivenWhateverFailedBefore) {
  const Buffer illegal = png_with_data(4, 4, Buffer{0x78, 0x01, 0x07, 0, 0, 0, 0, 0, 0});
  const Buffer no_zlib = png_with_data(4, 4, Buffer(9, 0xFF));
  const auto reason = [](const Buffer& file) {
    return test::message_of(ErrorKind::data, [&] { decode(file); });
  };
  std::thread([&] {  // nothing failed on it yet
    EXPECT_EQ(reason(illegal), "damaged PNG: its data cannot be unpacked");
    EXPECT_EQ(reason(no_zlib), "damaged PNG: bad zlib header");
    EXPECT_EQ(reason(illegal), "damaged PNG: its data cannot be unpacked");
  })
      .join();
}

TEST(DecodePng, HugeAndEmptyExtentsAreRefusedBeforeAnyAllocation) {
  const Buffer data = test::deflate(Buffer(16, 0));
  EXPECT_TRUE(refused(png_with_data(0, 4, data)));
  EXPECT_TRUE(refused(png_with_data(0x7FFFFFFF, 0x7FFFFFFF, data)));
  EXPECT_TRUE(refused(png_with_data(0xFFFFFFFF, 0xFFFFFFFF, data)));
  EXPECT_TRUE(refused(png_with_data(0xFFFFFFFF, 1, data)));
  EXPECT_TRUE(refused(png_with_data(20000, 20000, data)));
  EXPECT_TRUE(refused(png_with_data(5, 5, data))) << "too little data";
}

TEST(DecodePng, TwentyFiveMegapixelsOfTheSlowestKindStayInTime) {
  const PngSpec spec{
      .width = 5000, .height = 5000, .bit_depth = 8, .color_type = 6, .interlaced = true};
  const Buffer file = test::write_png(
      spec, [](int x, int y, int c) { return static_cast<uint32_t>((x ^ y) + c) & 255u; });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(decode(file).width, 5000);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("25 megapixels RGBA, interlaced: %.2f s\n", seconds);
  EXPECT_LT(seconds, 10);  // 2 s on an idle machine; sanitizers and neighbours are slower
}

TEST(DecodeBmp, ExactAndNotCut) {
  const Image source = test::sample_image(37, 19);
  const Buffer file = test::write_bmp(source);
  EXPECT_EQ(decode(file).rgb, source.rgb);
  EXPECT_EQ(read_header(file).width, 37);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(refused(std::span(file).first(i == 49 ? file.size() - 1 : file.size() * i / 49)));
  }
}

TEST(DecodeKinds, BytesAfterTheEndAreIgnored) {
  const Image source = test::sample_image(33, 21);
  for (Buffer file : {test::write_jpeg(source), write({.width = 9, .height = 5}),
                      test::write_webp(source), test::write_bmp(source)}) {
    const Image expected = decode(file);
    for (const uint8_t byte : {uint8_t{0x5A}, uint8_t{0xFF}}) {
      file.insert(file.end(), 777, byte);
      EXPECT_EQ(decode(file).rgb, expected.rgb);
    }
  }
}

// Memory that the system does not have is no fault of the file, which would be replaced by others.
TEST(DecodeKinds, WantOfMemoryIsNoDamage) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve addresses";
#endif
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // a fresh process: tests before leave memory free
  const Image source = test::sample_image(2000, 2000);
  const Buffer files[] = {png_with_data(2000, 2000, test::deflate(Buffer(2000 * 2001, 0))),
                          test::write_jpeg(source, {.progressive = true}),
                          test::write_webp(source, {.quality = 1})};
  for (const Buffer& file : files) {
    const auto decode_without_memory = [&] {
      std::free(std::malloc(100'000));  // small blocks are still to be had
      Decoded out;
      out.image.reshape(2000, 2000);
      const rlimit none{1, 1};
      setrlimit(RLIMIT_AS, &none);
      try {
        decode(file, {}, out);
      } catch (const std::bad_alloc&) {
        std::_Exit(5);
      } catch (const Error& error) {
        std::fputs(error.what(), stderr);
        std::_Exit(3);
      }
      std::_Exit(0);
    };
    EXPECT_EXIT(decode_without_memory(), testing::ExitedWithCode(5), "") << &file - files;
  }
}

// Where its header has a mask for alpha, else the fourth byte means nothing.
TEST(DecodeBmp, AlphaIsLaidOverWhite) {
  const auto file_of = [](std::vector<uint32_t> masks, uint32_t compression,
                          uint32_t header_bytes) {
    Buffer file = {'B', 'M'};
    const auto put = [&file](uint32_t value, int bytes) {
      for (int i = 0; i < bytes; ++i) file.push_back(static_cast<uint8_t>(value >> (8 * i)));
    };
    const auto pixels_at = static_cast<uint32_t>(14 + 40 + 4 * masks.size());
    for (const uint32_t word : {0u, 0u, pixels_at, header_bytes, 3u, 1u}) put(word, 4);
    put(1, 2);   // planes
    put(32, 2);  // bits of a pixel
    for (const uint32_t word : {compression, 12u, 0u, 0u, 0u, 0u}) put(word, 4);
    for (const uint32_t mask : masks) put(mask, 4);
    for (const uint32_t pixel : {0xFF102030u, 0x80102030u, 0x00102030u}) put(pixel, 4);
    return file;
  };
  const Buffer half = {composite(16, 128), composite(32, 128), composite(48, 128)};
  const Buffer over_white = {16, 32, 48, half[0], half[1], half[2], 255, 255, 255};
  const std::vector<uint32_t> masks = {0xFF0000, 0xFF00, 0xFF, 0xFF000000};
  EXPECT_EQ(decode(file_of(masks, 3, 56)).rgb, over_white) << "masks within the header";
  EXPECT_EQ(decode(file_of(masks, 6, 40)).rgb, over_white) << "masks behind it";
  EXPECT_EQ(decode(file_of({}, 0, 40)).rgb, (Buffer{16, 32, 48, 16, 32, 48, 16, 32, 48}));
}

TEST(DecodeKinds, WhatIsNoImageIsNamed) {
  const auto reason = [](std::string text) {
    return test::message_of(ErrorKind::data, [&] {
      decode(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
    });
  };
  EXPECT_EQ(reason(""), "empty file");
  EXPECT_EQ(reason("GIF89a......"), "a GIF image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("....ftypavif...."), "an AVIF image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason(std::string("II*\0....", 8)),
            "a TIFF image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("....ftypheic...."), "a HEIC image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("version https://git-lfs.github.com/spec/v1\n"),
            "a git-lfs pointer, not the image itself (run 'git lfs pull'); JPEG, PNG, BMP, "
            "WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("<!DOCTYPE html><html>"),
            "an HTML page (a failed download?); JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("hello\n"), "a text file, no image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason("\x01\x02\xFE\xFF"),
            "no known image format; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported");
  EXPECT_EQ(reason(std::string(600, '\0')),
            "no image: the file starts with zeros (a lost or sparse copy?)");
}

}  // namespace
}  // namespace whisker
