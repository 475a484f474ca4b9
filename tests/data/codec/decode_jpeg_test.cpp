// JPEG: equal to djpeg, all orientations, crops and scales, cuts refused, hostile scans
// bounded.
#include "core/error.h"
#include "data/codec/decode.h"
#include "data/codec/decode_formats.h"
#include "tests/support/error_of.h"
#include "tests/support/image_files.h"
#include "tests/support/test_data.h"
#include "tests/support/unguarded_decoders.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace whisker {
namespace {

using test::Buffer;
using test::JpegColor;
using test::JpegSpec;

struct NamedSpec {
  const char* name;
  JpegSpec spec;
};

const std::vector<NamedSpec>& jpeg_kinds() {
  static const std::vector<NamedSpec> kinds = {
      {"gray", {.color = JpegColor::gray}},
      {"420", {}},
      {"422", {.v_samples = 1}},
      {"440", {.h_samples = 1}},
      {"444", {.h_samples = 1, .v_samples = 1}},
      {"411", {.h_samples = 4, .v_samples = 1}},
      {"separate scans", {.separate_scans = true}},
      {"rgb", {.color = JpegColor::rgb}},
      {"progressive", {.progressive = true}},
      {"progressive gray", {.color = JpegColor::gray, .progressive = true}},
      {"restarts", {.restart_rows = 1}},
      {"cmyk", {.color = JpegColor::cmyk}},
      {"ycck", {.color = JpegColor::ycck}},
      {"ycck 444", {.color = JpegColor::ycck, .h_samples = 1, .v_samples = 1}},
      {"low quality", {.quality = 15}},
  };
  return kinds;
}

// Pixels of djpeg; false when it fails.
bool run_djpeg(const Buffer& file, const JpegSpec& spec, Image& out) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("whisker-djpeg-{}.jpg", getpid());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), std::ssize(file));
  const char* force_rgb = spec.color == JpegColor::gray ? "-rgb" : "";
  std::FILE* pipe = popen(fmt::format("djpeg {} -pnm {}", force_rgb, path.string()).c_str(), "r");
  int width = 0;
  int height = 0;
  bool read = std::fscanf(pipe, "P6 %d %d 255", &width, &height) == 2 && std::fgetc(pipe) == '\n';
  if (read) {
    out.reshape(height, width);
    read = std::fread(out.rgb.data(), 1, out.rgb.size(), pipe) == out.rgb.size();
  }
  pclose(pipe);
  std::filesystem::remove(path);
  return read;
}

int max_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  if (a.rgb.size() != b.rgb.size()) return 255;
  int most = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

TEST(DecodeJpeg, EqualsDjpegWithinOneLevel) {
  if (std::system("djpeg -version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no djpeg (libjpeg-turbo-progs)";
  int compared = 0;
  for (const auto& [name, spec] : jpeg_kinds()) {
    for (const auto& [width, height] : {std::pair{61, 47}, {16, 16}, {1, 1}, {1, 37}, {203, 8}}) {
      const Buffer file = test::write_jpeg(test::sample_image(width, height), spec);
      Image expected;
      ASSERT_TRUE(run_djpeg(file, spec, expected)) << name;
      Image image = decode(file);
      EXPECT_LE(max_difference(image, expected), 1) << name << " " << width << "x" << height;
      uint8_t& middle = image.rgb[image.rgb.size() / 2];  // control: one value off by three
      middle = static_cast<uint8_t>(middle < 128 ? middle + 3 : middle - 3);
      EXPECT_GT(max_difference(image, expected), 1);
      ++compared;
    }
  }
  std::printf("compared with djpeg: %d images\n", compared);
}

TEST(DecodeJpeg, PlainCmykWithoutAdobeMarkerIsNotComplemented) {
  const Image source = test::sample_image(48, 40);
  const auto plain = decode(
      test::write_jpeg(source, {.color = JpegColor::cmyk, .quality = 98, .adobe_marker = false}));
  const auto adobe = decode(test::write_jpeg(source, {.color = JpegColor::cmyk, .quality = 98}));
  EXPECT_LE(max_difference(plain, source), 40);
  EXPECT_LE(max_difference(plain, adobe), 12);
}

// The stored pixel that shows at upright (x, y), spelled out per orientation from the EXIF text.
std::pair<int, int> stored_pixel(int orientation, int x, int y, int width, int height) {
  switch (orientation) {
    case 2:
      return {width - 1 - x, y};
    case 3:
      return {width - 1 - x, height - 1 - y};
    case 4:
      return {x, height - 1 - y};
    case 5:
      return {y, x};
    case 6:
      return {y, height - 1 - x};
    case 7:
      return {width - 1 - y, height - 1 - x};
    case 8:
      return {width - 1 - y, x};
    default:
      return {x, y};
  }
}

TEST(DecodeJpeg, AllOrientationsTurnUpright) {
  const Image source = test::sample_image(150, 83);
  const Image stored = decode(test::write_jpeg(source));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Buffer file = test::write_jpeg(source, {.orientation = orientation});
    const ImageHeader header = read_header(file);
    const Image upright = decode(file);
    EXPECT_EQ(header.orientation, orientation);
    ASSERT_EQ(header.width, orientation >= 5 ? 83 : 150);
    ASSERT_EQ(upright.width, header.width);
    ASSERT_EQ(upright.height, header.height);
    int wrong = 0;
    for (int y = 0; y < upright.height; ++y) {
      for (int x = 0; x < upright.width; ++x) {
        const auto [sx, sy] = stored_pixel(orientation, x, y, 150, 83);
        wrong += !std::equal(upright.row(y) + 3 * x, upright.row(y) + 3 * x + 3,
                             stored.row(sy) + 3 * sx);
      }
    }
    EXPECT_EQ(wrong, 0) << "orientation " << orientation;
  }
}

// Mean of the full-resolution pixels that scaled pixel (x, y) of a fast decode stands for.
double block_mean(const Image& full, const Decoded& part, int x, int y, int channel) {
  const double x0 = (x + part.origin_x) * part.scale;
  const double y0 = (y + part.origin_y) * part.scale;
  double sum = 0;
  int count = 0;
  for (int v = 0; v < part.scale; ++v) {
    for (int u = 0; u < part.scale; ++u) {
      const int fx = static_cast<int>(std::lround(x0)) + u;
      const int fy = static_cast<int>(std::lround(y0)) + v;
      if (fx < 0 || fy < 0 || fx >= full.width || fy >= full.height) continue;
      sum += full.row(fy)[3 * fx + channel];
      ++count;
    }
  }
  return sum / count;
}

TEST(DecodeJpeg, FastCropsHoldTheSamePixelsInEveryOrientationAndScale) {
  const Image source = test::sample_image(301, 215);
  int most_scales[9] = {};
  for (const bool progressive : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Buffer file = test::write_jpeg(
          source, {.progressive = progressive, .quality = 95, .orientation = orientation});
      const Image full = decode(file);
      for (const int target : {200, 70, 40, 20}) {
        const CropRequest request{
            {full.width / 7, full.height / 9, full.width * 3 / 5, full.height * 3 / 4},
            target,
            target - 3};
        Decoded part;
        decode(file, {.fast = request}, part);
        const auto [view, box] = crop_view(part, request.crop);
        const int expected_scale =
            std::min(request.crop.width / (target - 3), request.crop.height / target);
        EXPECT_GE(expected_scale, part.scale > 1 ? part.scale : 0);
        EXPECT_TRUE(part.scale == 8 || expected_scale < 2 * part.scale);
        ++most_scales[part.scale];
        EXPECT_EQ(part.full_width, full.width);
        EXPECT_NEAR(box.x1 - box.x0, double(request.crop.width) / part.scale, 1e-9);
        EXPECT_NEAR(box.y1 - box.y0, double(request.crop.height) / part.scale, 1e-9);
        EXPECT_LT(part.image.rgb.size(), full.rgb.size());
        double total = 0;
        double most = 0;
        for (int y = 0; y < view.height; ++y) {
          for (int x = 0; x < view.width; ++x) {
            for (int c = 0; c < 3; ++c) {
              const auto offset = view.rgb - part.image.rgb.data();
              const int px = x + static_cast<int>(offset / 3 % part.image.width);
              const int py = y + static_cast<int>(offset / 3 / part.image.width);
              const double difference =
                  std::abs(view.row(y)[3 * x + c] - block_mean(full, part, px, py, c));
              total += difference;
              most = std::max(most, difference);
            }
          }
        }
        const double mean = total / (3.0 * view.width * view.height);
        if (part.scale == 1) {
          EXPECT_EQ(most, 0) << "orientation " << orientation;
        } else {
          EXPECT_LT(mean, 2.5) << "orientation " << orientation << " scale " << part.scale;
        }
      }
    }
  }
  for (const int scale : {1, 2, 4, 8}) EXPECT_GT(most_scales[scale], 0) << scale;
}

// The pixels of `part` that differ between two images of the same extents.
int different_pixels(const Image& a, const Image& b, const Rect& part) {
  int different = 0;
  for (int y = part.top; y < part.top + part.height; ++y) {
    for (int x = 3 * part.left; x < 3 * (part.left + part.width); x += 3) {
      different += !std::equal(a.row(y) + x, a.row(y) + x + 3, b.row(y) + x);
    }
  }
  return different;
}

TEST(DecodeJpeg, PartsAreExact) {
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  int64_t left_out = 0, all = 0;
  for (const auto& [name, kind] : jpeg_kinds()) {
    for (const auto& [width, height] : {std::pair{301, 215}, {64, 96}, {37, 5}, {3, 3}}) {
      JpegSpec spec = kind;
      for (int i = 0; i < 40; ++i) {
        spec.orientation = i % 9;
        const Buffer file = test::write_jpeg(test::sample_image(width, height), spec);
        const Image full = decode(file);
        Rect part{.left = below(full.width), .top = below(full.height)};
        part.width = 1 + below(full.width - part.left);
        part.height = 1 + below(full.height - part.top);
        Decoded out;
        out.image.reshape(full.height, full.width);
        std::ranges::transform(full.rgb, out.image.rgb.begin(),
                               [](int byte) { return static_cast<uint8_t>(~byte); });
        decode(file, {.part = part}, out);
        ASSERT_EQ(out.image.width, full.width);
        ASSERT_EQ(out.image.height, full.height);
        EXPECT_EQ(different_pixels(out.image, full, part), 0)
            << name << " " << width << "x" << height << " " << part.width << "x" << part.height
            << " at " << part.left << "," << part.top << " orientation " << spec.orientation;
        left_out += different_pixels(out.image, full, {0, 0, full.width, full.height});
        all += int64_t{full.width} * full.height;
      }
    }
  }
  EXPECT_GT(left_out, all / 4) << "control: what is not asked for is not decoded";
}

// libjpeg then smooths over several blocks.
TEST(DecodeJpeg, PartsOfProgressiveFilesWithoutTheirLastScansAreExact) {
  const Buffer file =
      test::write_jpeg(test::sample_image(300, 200), {.progressive = true, .quality = 50});
  Buffer shorter = file;
  int compared = 0;
  for (size_t at = file.size() - 2; at > 700; --at) {
    if (!(file[at] == 0xFF && file[at + 1] == 0xC4)) continue;  // a scan's Huffman table
    shorter.resize(at);
    shorter.insert(shorter.end(), {0xFF, 0xD9});
    const Image full = decode(shorter);
    for (int left = 0; left < 200; left += 13) {
      const Rect part{.left = left, .top = left / 2, .width = 90, .height = 80};
      Decoded out;
      decode(shorter, {.part = part}, out);
      EXPECT_EQ(different_pixels(out.image, full, part), 0) << at << " " << left;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(DecodeJpeg, PartsOfDamagedFilesAreThoseOfWholeOnes) {
  constexpr Rect part{.left = 40, .top = 30, .width = 50, .height = 20};
  std::mt19937 random(2);
  int refused = 0;
  for (const auto& [name, spec] : jpeg_kinds()) {
    const Buffer file = test::write_jpeg(test::sample_image(150, 110), spec);
    ASSERT_GT(file.size(), 1000u);
    for (int i = 0; i < 200; ++i) {
      Buffer damaged = file;
      damaged[700 + random() % (file.size() - 700)] ^= static_cast<uint8_t>(1U << random() % 8);
      const auto decoded = [&](const DecodeOptions& how, Decoded& out) {
        try {
          decode(damaged, how, out);
          return std::string();
        } catch (const Error& error) {
          return std::string(error.what());
        }
      };
      Decoded whole, some;
      const std::string error = decoded({}, whole);
      EXPECT_EQ(decoded({.part = part}, some), error) << name;
      if (error.empty()) {
        EXPECT_EQ(different_pixels(some.image, whole.image, part), 0) << name;
      }
      refused += !error.empty();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(DecodeJpeg, CropOutsideTheImageIsAUsageError) {
  const Buffer file = test::write_jpeg(test::sample_image(40, 30));
  Decoded out;
  EXPECT_EQ(test::message_of(ErrorKind::usage,
                             [&] {
                               decode(file, {.part = Rect{0, 9, 40, 22}}, out);
                             }),
            "decode: crop 40x22 at (0,9) is not inside the 40x30 image");
  EXPECT_EQ(test::message_of(ErrorKind::usage,
                             [&] {
                               decode(file, {.fast = CropRequest{{20, 0, 21, 30}, 8, 8}}, out);
                             }),
            "decode: crop 21x30 at (20,0) is not inside the 40x30 image");
}

// As if the first look at a file had found other extents than libjpeg.
TEST(DecodeJpeg, HeadersThatDifferAreRefused) {
  const Buffer file = test::write_jpeg(test::sample_image(40, 30));
  for (const Rect& part : {Rect{0, 0, 41, 30}, Rect{0, 0, 40, 31}, Rect{50, 40, 1, 1}}) {
    Image out;
    EXPECT_EQ(test::message_of(ErrorKind::data, [&] { formats::decode_jpeg(file, part, out); }),
              "damaged JPEG: its headers differ in their extents");
  }
}

TEST(DecodeJpeg, CutsAreRefusedWhereLibjpegOnlyWarns) {
  int cuts = 0;
  int control_accepts = 0;
  for (const auto& [name, spec] : jpeg_kinds()) {
    const Buffer file = test::write_jpeg(test::sample_image(97, 75), spec);
    for (int i = 0; i < 50; ++i) {
      const size_t size = i == 49 ? file.size() - 1 : file.size() * static_cast<size_t>(i) / 49;
      const auto cut = std::span(file).first(size);
      EXPECT_TRUE(test::refused(ErrorKind::data, [&] { decode(cut); }))
          << name << " cut to " << size;
      EXPECT_TRUE(test::refused(ErrorKind::data,
                                [&] {
                                  Decoded out;
                                  decode(cut, {.fast = CropRequest{{0, 0, 20, 16}, 8, 8}}, out);
                                }))
          << name << " fast, cut to " << size;
      EXPECT_TRUE(test::refused(ErrorKind::data,
                                [&] {
                                  Decoded out;
                                  decode(cut, {.part = Rect{0, 0, 20, 16}}, out);
                                }))
          << name << " in part, cut to " << size;
      ++cuts;
      control_accepts += test::unguarded_libjpeg_accepts(cut);
    }
  }
  EXPECT_GT(control_accepts, cuts / 4) << "control: unguarded libjpeg must take cut files";
  std::printf("cuts accepted: 0 of %d; control: %d\n", 3 * cuts, control_accepts);
}

TEST(DecodeJpeg, LongThinAndLargeImagesDecode) {
  for (const auto& [width, height] : {std::pair{65500, 1}, {1, 65500}, {16384, 5000}}) {
    Image source;
    source.reshape(height, width);
    const Buffer file = test::write_jpeg(source, {.color = JpegColor::gray, .quality = 50});
    const Image image = decode(file);
    EXPECT_EQ(image.width, width);
    EXPECT_EQ(image.height, height);
  }
}

TEST(DecodeJpeg, MoreThanMaxPixelsIsRefusedByName) {
  const Buffer file = test::write_jpeg(test::sample_image(40, 30));
  EXPECT_EQ(test::message_of(ErrorKind::data, [&] { decode(file, 1199); }),
            "image too large: 40x30 is over data.max_pixels = 1199");
  EXPECT_EQ(decode(file, 1200).width, 40);
}

// A progressive file whose last scan is repeated: small, and without a cap minutes of work.
TEST(DecodeJpeg, ManyScansAreBounded) {
  Image source;
  source.reshape(3000, 4000);
  Buffer file = test::write_jpeg(source, {.progressive = true});
  size_t scan = file.size() - 2;
  while (!(file[scan] == 0xFF && file[scan + 1] == 0xC4)) --scan;  // the last scan's Huffman table
  const Buffer last(file.begin() + static_cast<ptrdiff_t>(scan), file.end() - 2);
  file.resize(file.size() - 2);
  const auto repeat_last_scan = [&, whole = file](int times) {
    file = whole;
    for (int i = 0; i < times; ++i) file.insert(file.end(), last.begin(), last.end());
    file.push_back(0xFF);
    file.push_back(0xD9);
  };
  repeat_last_scan(2);
  EXPECT_EQ(decode(file).width, 4000) << "control: it is the number of scans that is refused";
  repeat_last_scan(2000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(test::refused(ErrorKind::data, [&] { decode(file); }));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("2,000 scans over 12 megapixels in %zu bytes: refused after %.2f s\n", file.size(),
              seconds);
  EXPECT_LT(seconds, 10);  // 2 s on an idle machine; sanitizers and neighbours are slower
}

}  // namespace
}  // namespace whisker
