// Resampling: bit-equal to Pillow (stored CRCs of version 13), kernels bit-equal to each other,
// errors.
#include "data/transforms/resize.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace whisker {
namespace {

// The formula of scripts/make_resize_reference.py.
Image formula_image(int width, int height, int noise) {
  Image image;
  image.reshape(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int value = x * x * 3 + y * 7 * (c + 1) + x * y / 5 + c * 60 + (x ^ y) * noise;
        image.row(y)[3 * x + c] = static_cast<uint8_t>(value % 256);
      }
    }
  }
  return image;
}

std::string crc_of(const Image& image) {
  return fmt::format("{:08x}", crc32(0, image.rgb.data(), static_cast<uInt>(image.rgb.size())));
}

// Where Pillow 13 takes rows first (ImagingResampleInner in its src/libImaging/Resample.c).
bool pillow_13_takes_rows_first(const Image& source, const ResizeOptions& options) {
  const int fewer_rows = source.height - options.height;
  return fewer_rows > 0 && fewer_rows > 2 * (source.width - options.width);
}

// Columns first, as Pillow up to 12 always does and 13 but for some shapes. There the same two
// passes the other way round give its bits.
TEST(Resize, IsBitEqualToPillow) {
  std::ifstream table(WHISKER_SOURCE_DIR "/tests/data/transforms/resize_reference.tsv");
  ASSERT_TRUE(table);
  ResizeScratch scratch;
  Image out, between, other;
  std::string line;
  std::getline(table, line);
  EXPECT_TRUE(line.starts_with("# Pillow 13.")) << line;
  int rows = 0, rows_first = 0;
  std::map<std::string, int> most;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    int width, height, noise;
    std::string filter, crc, pillow_13;
    Box box;
    ResizeOptions options;
    cells >> width >> height >> noise >> filter >> box.x0 >> box.y0 >> box.x1 >> box.y1 >>
        options.width >> options.height >> crc >> pillow_13;
    ASSERT_TRUE(cells) << line;
    options.interpolation = filter == "bicubic" ? Interpolation::bicubic : Interpolation::bilinear;
    const Image source = formula_image(width, height, noise);
    resize(ImageView(source), box, options, out, scratch);
    EXPECT_EQ(crc_of(out), crc) << line;
    ++rows;
    if (!pillow_13_takes_rows_first(source, options)) {
      EXPECT_EQ(crc_of(out), pillow_13) << line;
      continue;
    }
    ++rows_first;
    ResizeOptions pass = options;
    pass.width = width;
    resize(ImageView(source), {0, box.y0, double(width), box.y1}, pass, between, scratch);
    resize(ImageView(between), {box.x0, 0, box.x1, double(options.height)}, options, other,
           scratch);
    EXPECT_EQ(crc_of(other), pillow_13) << line;
    for (size_t i = 0; i < out.rgb.size(); ++i) {
      most[filter] = std::max(most[filter], std::abs(out.rgb[i] - other.rgb[i]));
    }
  }
  EXPECT_EQ(rows, 92);
  EXPECT_EQ(rows_first, 32);
  // Levels between the two orders. Bicubic overshoots are cut off between the passes.
  EXPECT_EQ(most["bilinear"], 1);
  EXPECT_EQ(most["bicubic"], 23);
  std::printf("resizes equal to Pillow 12 bit for bit: %d, to 13: %d (%s kernels)\n", rows,
              rows - rows_first, resize_kernels().name);
}

// A view with integer edges is the same as cropping first: nothing outside it is used.
TEST(Resize, AViewEqualsItsCopy) {
  const Image source = formula_image(90, 70, 13);
  const Rect rect{11, 7, 60, 50};
  Image copy;
  copy.reshape(rect.height, rect.width);
  for (int y = 0; y < rect.height; ++y) {
    std::copy_n(source.row(rect.top + y) + 3 * rect.left, 3 * rect.width, copy.row(y));
  }
  ResizeScratch scratch;
  Image from_view, from_copy;
  for (const auto& [width, height] : {std::pair{31, 22}, {60, 20}, {100, 120}}) {
    const ResizeOptions options{.height = height, .width = width};
    const Box box{0, 0, 60, 50};
    resize(ImageView(source, rect), box, options, from_view, scratch);
    resize(ImageView(copy), box, options, from_copy, scratch);
    EXPECT_EQ(from_view.rgb, from_copy.rgb);
  }
}

TEST(Resize, FlipsMirrorTheResult) {
  const Image source = formula_image(90, 70, 13);
  ResizeScratch scratch;
  Image plain, flipped;
  for (const int width : {31, 90}) {
    const Box box{0, 0, 90, 70};
    resize(ImageView(source), box, {.height = 20, .width = width}, plain, scratch);
    resize(ImageView(source), box,
           {.height = 20, .width = width, .flip_horizontal = true, .flip_vertical = true}, flipped,
           scratch);
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < width; ++x) {
        EXPECT_TRUE(std::equal(plain.row(y) + 3 * x, plain.row(y) + 3 * x + 3,
                               flipped.row(19 - y) + 3 * (width - 1 - x)));
      }
    }
  }
}

TEST(Resize, AWindowIsAPartOfTheResult) {
  const Image source = formula_image(90, 70, 13);
  ResizeScratch scratch;
  Image whole, part;
  for (const auto& [width, height] : {std::pair{31, 40}, {90, 70}, {200, 50}}) {
    const Box box{0, 0, 90, 70};
    const Rect window{7, 9, 20, 30};
    resize(ImageView(source), box, {.height = height, .width = width}, whole, scratch);
    resize(ImageView(source), box, {.height = height, .width = width, .window = window}, part,
           scratch);
    ASSERT_EQ(part.width, 20);
    ASSERT_EQ(part.height, 30);
    for (int y = 0; y < 30; ++y) {
      EXPECT_TRUE(std::equal(part.row(y), part.row(y) + 60, whole.row(y + 9) + 3 * 7));
    }
  }
}

TEST(Resize, KernelsAgreeBitForBit) {
  const ResizeKernels& fast = resize_kernels();
  const ResizeKernels& plain = portable_resize_kernels();
  std::vector<double> exact;
  AxisWeights weights;
  for (const auto interpolation : {Interpolation::bilinear, Interpolation::bicubic}) {
    for (const int in : {1, 2, 5, 33, 170, 500}) {
      const ResizeOptions options{.interpolation = interpolation};
      constexpr int out = 37;
      make_axis_weights({in, 0, static_cast<double>(in), out, 0, out}, options, exact, weights);
      const Image source = formula_image(in, std::max(in, 2), 29);
      const size_t row_bytes = static_cast<size_t>(in) * 3;
      std::vector<uint8_t> rows[2];
      for (int r = 0; r < 2; ++r) {
        rows[r].assign(source.row(r), source.row(r) + row_bytes);
        rows[r].resize(row_bytes + horizontal_overread(weights), 0xEE);
      }
      std::vector<uint8_t> a0(out * 3 + 4), a1(a0), b0(a0), b1(a0);
      fast.horizontal_pair(rows[0].data(), rows[1].data(), weights, a0.data(), a1.data());
      plain.horizontal_pair(rows[0].data(), rows[1].data(), weights, b0.data(), b1.data());
      a0.resize(out * 3), a1.resize(out * 3), b0.resize(out * 3), b1.resize(out * 3);
      EXPECT_EQ(a0, b0) << in;
      EXPECT_EQ(a1, b1) << in;
      std::vector<uint8_t> a(row_bytes), b(row_bytes);
      const uint8_t* end = source.rgb.data() + row_bytes * static_cast<size_t>(in);
      for (int i = 0; i < out; ++i) {
        const uint8_t* first = source.row(weights.start[static_cast<size_t>(i)]);
        fast.vertical(first, static_cast<ptrdiff_t>(row_bytes), end, i, weights, row_bytes,
                      a.data());
        plain.vertical(first, static_cast<ptrdiff_t>(row_bytes), end, i, weights, row_bytes,
                       b.data());
        EXPECT_EQ(a, b) << in << " row " << i;
      }
    }
  }
}

TEST(Resize, WithoutAntialiasOnlyNeighboursCount) {
  const Image source = formula_image(100, 1, 13);
  ResizeScratch scratch;
  Image out;
  resize(ImageView(source), {0, 0, 100, 1}, {.height = 1, .width = 10, .antialias = false}, out,
         scratch);
  for (int x = 0; x < 10; ++x) {
    // The center of output x is edge 10 x + 5: halfway between source pixels 10 x + 4 and 10 x + 5.
    const int left = source.rgb[static_cast<size_t>(3 * (10 * x + 4))];
    const int right = source.rgb[static_cast<size_t>(3 * (10 * x + 5))];
    EXPECT_EQ(out.rgb[static_cast<size_t>(3 * x)], (left + right + 1) / 2);
  }
}

TEST(Resize, BadBoxesAndTargetsAreUsageErrors) {
  const Image source = formula_image(10, 8, 0);
  ResizeScratch scratch;
  Image out;
  const auto reason = [&](Box box, ResizeOptions options) {
    return test::message_of(ErrorKind::usage,
                            [&] { resize(ImageView(source), box, options, out, scratch); });
  };
  EXPECT_EQ(reason({0, 0, 10, 8}, {.height = 0, .width = 4}),
            "resize: expected a target of at least 1x1, got 4x0");
  EXPECT_EQ(reason({0, 0, 10.5, 8}, {.height = 4, .width = 4}),
            "resize: box (0, 0, 10.5, 8) is empty or leaves the 10x8 image");
  EXPECT_EQ(reason({3, 0, 3, 8}, {.height = 4, .width = 4}),
            "resize: box (3, 0, 3, 8) is empty or leaves the 10x8 image");
  EXPECT_EQ(reason({0, 0, 10, 8}, {.height = 4, .width = 4, .window = Rect{1, 0, 4, 4}}),
            "resize: window 4x4 at (1,0) is not inside the 4x4 result");
}

}  // namespace
}  // namespace whisker
