// Resampling: bit-equal to Pillow (stored CRCs), kernels bit-equal to each other, errors.
#include "data/resize.h"

#include "core/error.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace whisker {
namespace {

// The formula of scripts/make_resize_reference.py.
Picture formula_picture(int width, int height, int noise) {
  Picture picture;
  picture.reshape(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int value = x * x * 3 + y * 7 * (c + 1) + x * y / 5 + c * 60 + (x ^ y) * noise;
        picture.row(y)[3 * x + c] = static_cast<uint8_t>(value % 256);
      }
    }
  }
  return picture;
}

unsigned long crc_of(const Picture& picture) {
  return crc32(0, picture.rgb.data(), static_cast<uInt>(picture.rgb.size()));
}

TEST(Resize, IsBitEqualToPillow) {
  std::ifstream table(WHISKER_SOURCE_DIR "/tests/data/resize_reference.tsv");
  ASSERT_TRUE(table);
  ResizeScratch scratch;
  Picture out;
  std::string line;
  std::getline(table, line);
  int rows = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    int width, height, noise;
    std::string filter, crc;
    Box box;
    ResizeOptions options;
    cells >> width >> height >> noise >> filter >> box.x0 >> box.y0 >> box.x1 >> box.y1 >>
        options.width >> options.height >> crc;
    ASSERT_TRUE(cells) << line;
    options.interpolation = filter == "bicubic" ? Interpolation::bicubic : Interpolation::bilinear;
    const Picture source = formula_picture(width, height, noise);
    resize(PictureView(source), box, options, out, scratch);
    EXPECT_EQ(fmt::format("{:08x}", crc_of(out)), crc) << line;
    ++rows;
  }
  EXPECT_GE(rows, 80);
  std::printf("resizes equal to Pillow bit for bit: %d (%s kernels)\n", rows,
              resize_kernels().name);
}

// A view with integer edges is the same as cropping first: nothing outside it is used.
TEST(Resize, AViewEqualsItsCopy) {
  const Picture source = formula_picture(90, 70, 13);
  const Rect rect{11, 7, 60, 50};
  Picture copy;
  copy.reshape(rect.height, rect.width);
  for (int y = 0; y < rect.height; ++y) {
    std::copy_n(source.row(rect.top + y) + 3 * rect.left, 3 * rect.width, copy.row(y));
  }
  ResizeScratch scratch;
  Picture from_view, from_copy;
  for (const auto& [width, height] : {std::pair{31, 22}, {60, 20}, {100, 120}}) {
    const ResizeOptions options{.height = height, .width = width};
    const Box box{0, 0, 60, 50};
    resize(PictureView(source, rect), box, options, from_view, scratch);
    resize(PictureView(copy), box, options, from_copy, scratch);
    EXPECT_EQ(from_view.rgb, from_copy.rgb);
  }
}

TEST(Resize, FlipsMirrorTheResult) {
  const Picture source = formula_picture(90, 70, 13);
  ResizeScratch scratch;
  Picture plain, flipped;
  for (const int width : {31, 90}) {
    const Box box{0, 0, 90, 70};
    resize(PictureView(source), box, {.height = 20, .width = width}, plain, scratch);
    resize(PictureView(source), box,
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
  const Picture source = formula_picture(90, 70, 13);
  ResizeScratch scratch;
  Picture whole, part;
  for (const auto& [width, height] : {std::pair{31, 40}, {90, 70}, {200, 50}}) {
    const Box box{0, 0, 90, 70};
    const Rect window{7, 9, 20, 30};
    resize(PictureView(source), box, {.height = height, .width = width}, whole, scratch);
    resize(PictureView(source), box, {.height = height, .width = width, .window = window}, part,
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
      const Picture source = formula_picture(in, std::max(in, 2), 29);
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
  const Picture source = formula_picture(100, 1, 13);
  ResizeScratch scratch;
  Picture out;
  resize(PictureView(source), {0, 0, 100, 1}, {.height = 1, .width = 10, .antialias = false}, out,
         scratch);
  for (int x = 0; x < 10; ++x) {
    // The center of output x is edge 10 x + 5: halfway between source pixels 10 x + 4 and 10 x + 5.
    const int left = source.rgb[static_cast<size_t>(3 * (10 * x + 4))];
    const int right = source.rgb[static_cast<size_t>(3 * (10 * x + 5))];
    EXPECT_EQ(out.rgb[static_cast<size_t>(3 * x)], (left + right + 1) / 2);
  }
}

TEST(Resize, BadBoxesAndTargetsAreUsageErrors) {
  const Picture source = formula_picture(10, 8, 0);
  ResizeScratch scratch;
  Picture out;
  const auto reason = [&](Box box, ResizeOptions options) {
    try {
      resize(PictureView(source), box, options, out, scratch);
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(reason({0, 0, 10, 8}, {.height = 0, .width = 4}),
            "resize: expected a target of at least 1x1, got 4x0");
  EXPECT_EQ(reason({0, 0, 10.5, 8}, {.height = 4, .width = 4}),
            "resize: box (0, 0, 10.5, 8) is empty or leaves the 10x8 picture");
  EXPECT_EQ(reason({3, 0, 3, 8}, {.height = 4, .width = 4}),
            "resize: box (3, 0, 3, 8) is empty or leaves the 10x8 picture");
  EXPECT_EQ(reason({0, 0, 10, 8}, {.height = 4, .width = 4, .window = Rect{1, 0, 4, 4}}),
            "resize: window 4x4 at (1,0) is not inside the 4x4 result");
}

}  // namespace
}  // namespace whisker
