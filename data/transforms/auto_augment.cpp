#include "data/transforms/auto_augment.h"

#include "core/image/image_arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace whisker {
namespace {

constexpr int bins = 31;

// The magnitude of a bin before its sign, from torchvision's RandAugment or, `wide`,
// TrivialAugmentWide.
double magnitude_of(PolicyOperation operation, bool wide, int bin, const ImageSize& size) {
  const double share = static_cast<double>(bin) / (bins - 1);
  switch (operation) {
    case PolicyOperation::shear_x:
    case PolicyOperation::shear_y:
      return share * (wide ? 0.99 : 0.3);
    case PolicyOperation::translate_x:
      return share * (wide ? 32 : 150.0 / 331 * size.width);
    case PolicyOperation::translate_y:
      return share * (wide ? 32 : 150.0 / 331 * size.height);
    case PolicyOperation::rotate:
      return share * (wide ? 135 : 30);
    case PolicyOperation::brightness:
    case PolicyOperation::color:
    case PolicyOperation::contrast:
    case PolicyOperation::sharpness:
      return share * (wide ? 0.99 : 0.9);
    case PolicyOperation::posterize:
      return 8 - std::nearbyint(share * (wide ? 6 : 4));  // half to even, as torch.round
    case PolicyOperation::solarize:
      return 255.0 * (bins - 1 - bin) / (bins - 1);  // whole numbers stay whole
    case PolicyOperation::identity:
    case PolicyOperation::auto_contrast:
    case PolicyOperation::equalize:
      break;
  }
  return 0;
}

bool is_signed(PolicyOperation operation) {
  return operation >= PolicyOperation::shear_x && operation <= PolicyOperation::sharpness;
}

// Pillow's nearest affine transform in 16.16 fixed point (a warp interpolates, which torchvision's
// default does not): the output at (x, y) shows the input at
// (m0 x + m1 y + m2, m3 x + m4 y + m5), on pixel corners.
void transform_nearest(const std::array<double, 6>& m, Image& image) {
  const auto fixed = [](double v) { return static_cast<int64_t>(std::floor(v * 65536 + 0.5)); };
  const int64_t a0 = fixed(m[0]), a1 = fixed(m[1]), a3 = fixed(m[3]), a4 = fixed(m[4]);
  int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int64_t row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  Image moved;
  moved.reshape(image.height, image.width);
  std::ranges::fill(moved.rgb, uint8_t{0});
  for (int y = 0; y < image.height; ++y, row_x += a1, row_y += a4) {
    int64_t at_x = row_x, at_y = row_y;
    for (int x = 0; x < image.width; ++x, at_x += a0, at_y += a3) {
      const int64_t from_x = at_x >> 16, from_y = at_y >> 16;
      if (from_x < 0 || from_x >= image.width || from_y < 0 || from_y >= image.height) continue;
      std::copy_n(image.row(static_cast<int>(from_y)) + 3 * from_x, 3, moved.row(y) + 3 * x);
    }
  }
  image = std::move(moved);
}

// PIL.Image.rotate without expansion: counter-clockwise about the center.
void rotate(double degrees, Image& image) {
  const auto rounded = [](double v) { return std::nearbyint(v * 1e15) / 1e15; };
  const double angle = -std::fmod(degrees + 360, 360) * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = image.width / 2.0, y = image.height / 2.0;
  transform_nearest({cosine, sine, x - cosine * x - sine * y,  //
                     -sine, cosine, y + sine * x - cosine * y},
                    image);
}

// PIL.Image.blend: from `other` (a value of pixel `at`) to the image and beyond.
template <class Other>
void blend(double factor, const Other& other, Image& image) {
  const auto alpha = static_cast<float>(factor);
  for (size_t at = 0; at < image.rgb.size(); ++at) {
    const float low = other(at);
    const float value = low + alpha * (static_cast<float>(image.rgb[at]) - low);
    image.rgb[at] = static_cast<uint8_t>(clamp_to_byte(value));
  }
}

void adjust_color(double factor, Image& image) {
  const Image before = image;
  blend(
      factor,
      [&](size_t at) { return static_cast<float>(gray_of(before.rgb.data() + at / 3 * 3)); },
      image);
}

void adjust_contrast(double factor, Image& image) {
  double sum = 0;
  for (size_t at = 0; at < image.rgb.size(); at += 3) sum += gray_of(image.rgb.data() + at);
  const auto mean = std::floor(sum / (static_cast<double>(image.rgb.size()) / 3) + 0.5);
  blend(
      factor, [&](size_t) { return static_cast<float>(mean); }, image);
}

// The other end is Pillow's SMOOTH filter, which leaves the border as it is.
void adjust_sharpness(double factor, Image& image) {
  Image smooth = image;
  for (int y = 1; y + 1 < image.height; ++y) {
    for (int x = 1; x + 1 < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        float sum = 0.5f;
        for (int dy = 1; dy >= -1; --dy) {
          const uint8_t* const row = image.row(y + dy) + ptrdiff_t{3} * x + c;
          sum += static_cast<float>(row[-3]) * (1.0f / 13) +
                 static_cast<float>(row[0]) * ((dy == 0 ? 5.0f : 1.0f) / 13) +
                 static_cast<float>(row[3]) * (1.0f / 13);
        }
        smooth.row(y)[ptrdiff_t{3} * x + c] = static_cast<uint8_t>(clamp_to_byte(sum));
      }
    }
  }
  blend(
      factor, [&](size_t at) { return static_cast<float>(smooth.rgb[at]); }, image);
}

using Histogram = std::array<int64_t, 256>;
using Table = std::array<uint8_t, 256>;

// `table_of(histogram)` gives the new value of each old one, channel by channel.
template <class TableOf>
void map_channels(const TableOf& table_of, Image& image) {
  for (size_t c = 0; c < 3; ++c) {
    Histogram histogram{};
    for (size_t at = c; at < image.rgb.size(); at += 3) ++histogram[image.rgb[at]];
    const Table table = table_of(histogram);
    for (size_t at = c; at < image.rgb.size(); at += 3) image.rgb[at] = table[image.rgb[at]];
  }
}

Table identity_table() {
  Table table{};
  for (size_t v = 0; v < 256; ++v) table[v] = static_cast<uint8_t>(v);
  return table;
}

// PIL.ImageOps.autocontrast without a cutoff.
Table auto_contrast_table(const Histogram& histogram) {
  int low = 0, high = 255;
  while (low < 255 && histogram[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && histogram[static_cast<size_t>(high)] == 0) --high;
  Table table = identity_table();
  if (high <= low) return table;
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  for (size_t v = 0; v < 256; ++v) {
    const auto value = static_cast<int>(static_cast<double>(v) * scale + offset);
    table[v] = static_cast<uint8_t>(std::clamp(value, 0, 255));
  }
  return table;
}

// PIL.ImageOps.equalize.
Table equalize_table(const Histogram& histogram) {
  int64_t sum = 0, last = 0, used = 0;
  for (const int64_t count : histogram) {
    if (count == 0) continue;
    sum += count;
    last = count;
    ++used;
  }
  Table table = identity_table();
  const int64_t step = (sum - last) / 255;
  if (used <= 1 || step == 0) return table;
  int64_t n = step / 2;
  for (size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<uint8_t>(std::min<int64_t>(n / step, 255));
    n += histogram[v];
  }
  return table;
}

template <class Map>
void map_values(const Map& map, Image& image) {
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(map(value));
}

void apply(const PolicyStep& step, Image& image) {
  const double m = step.magnitude;
  switch (step.operation) {
    case PolicyOperation::identity:
      return;
    case PolicyOperation::shear_x:
      return transform_nearest({1, m, 0, 0, 1, 0}, image);
    case PolicyOperation::shear_y:
      return transform_nearest({1, 0, 0, m, 1, 0}, image);
    case PolicyOperation::translate_x:
      return transform_nearest({1, 0, -std::trunc(m), 0, 1, 0}, image);
    case PolicyOperation::translate_y:
      return transform_nearest({1, 0, 0, 0, 1, -std::trunc(m)}, image);
    case PolicyOperation::rotate:
      return rotate(m, image);
    case PolicyOperation::brightness:
      return blend(
          1 + m, [](size_t) { return 0.0f; }, image);
    case PolicyOperation::color:
      return adjust_color(1 + m, image);
    case PolicyOperation::contrast:
      return adjust_contrast(1 + m, image);
    case PolicyOperation::sharpness:
      return adjust_sharpness(1 + m, image);
    case PolicyOperation::posterize: {
      const int mask = ~((1 << (8 - static_cast<int>(m))) - 1);
      return map_values([mask](int value) { return value & mask; }, image);
    }
    case PolicyOperation::solarize:
      return map_values([m](int value) { return value < m ? value : 255 - value; }, image);
    case PolicyOperation::auto_contrast:
      return map_channels(auto_contrast_table, image);
    case PolicyOperation::equalize:
      return map_channels(equalize_table, image);
  }
}

}  // namespace

std::vector<PolicyStep> sample_policy(const AugmentConfig& config, const DrawKey& key,
                                      const ImageSize& size) {
  if (!config.has_policy()) return {};
  PhiloxStream random = stream_for("policy", key);
  std::vector<PolicyStep> steps(
      config.trivial_augment ? 1 : static_cast<size_t>(config.rand_augment_ops));
  for (auto& [operation, magnitude] : steps) {
    operation = static_cast<PolicyOperation>(random.below(policy_operations));
    const int bin = config.trivial_augment ? static_cast<int>(random.below(bins))
                                           : static_cast<int>(config.rand_augment_magnitude);
    magnitude = magnitude_of(operation, config.trivial_augment, bin, size);
    if (is_signed(operation) && random.below(2) == 1) magnitude = -magnitude;
  }
  return steps;
}

void apply_policy(const std::vector<PolicyStep>& steps, Image& image) {
  for (const PolicyStep& step : steps) apply(step, image);
}

}  // namespace whisker
