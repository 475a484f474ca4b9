#include "data/transforms/augment_sampler.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

namespace whisker {
namespace {

double radians(double degrees) {
  return degrees * std::numbers::pi / 180;
}

Rect centered_rect(int height, int width, int crop_height, int crop_width) {
  return {(width - crop_width) / 2, (height - crop_height) / 2, crop_width, crop_height};
}

// A rectangle of a random share of the area and random ratio; none after ten tries that do not fit.
std::optional<Rect> try_rect(const Range& scale, const Range& ratio, int height, int width,
                             PhiloxStream& random) {
  const double area = static_cast<double>(height) * width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(scale.low, scale.high);
    const double aspect = std::exp(random.uniform(std::log(ratio.low), std::log(ratio.high)));
    const auto w = static_cast<int>(std::lround(std::sqrt(target * aspect)));
    const auto h = static_cast<int>(std::lround(std::sqrt(target / aspect)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto top = static_cast<int>(random.below(static_cast<uint32_t>(height - h + 1)));
    const auto left = static_cast<int>(random.below(static_cast<uint32_t>(width - w + 1)));
    return Rect{left, top, w, h};
  }
  return std::nullopt;
}

Rect resized_crop(const AugmentConfig& config, int height, int width, PhiloxStream& random) {
  if (const auto rect = try_rect(config.crop_scale, config.crop_ratio, height, width, random)) {
    return *rect;
  }
  const double aspect = static_cast<double>(width) / height;
  if (aspect < config.crop_ratio.low) {
    const auto h = static_cast<int>(std::lround(width / config.crop_ratio.low));
    return centered_rect(height, width, std::clamp(h, 1, height), width);
  }
  if (aspect > config.crop_ratio.high) {
    const auto w = static_cast<int>(std::lround(height * config.crop_ratio.high));
    return centered_rect(height, width, height, std::clamp(w, 1, width));
  }
  return {0, 0, width, height};
}

// All of the output shows `crop` alone.
void show_crop(ImageRecord& record, const ImageSize& output, const Rect& crop) {
  record.crop = crop;
  record.columns = {crop.width, 0, static_cast<double>(crop.width), output.width, 0, output.width};
  record.rows = {crop.height, 0, static_cast<double>(crop.height), output.height, 0, output.height};
  record.place = {0, 0, output.width, output.height};
}

// The 2x2 product a b, both row by row.
std::array<double, 4> product(const std::array<double, 4>& a, const std::array<double, 4>& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}

WarpParameters sample_warp(const AugmentConfig& config, const ImageSize& output,
                           PhiloxStream& random) {
  WarpParameters warp;
  warp.rotation = radians(random.uniform(-config.rotation, config.rotation));
  warp.shear = radians(random.uniform(-config.shear, config.shear));
  warp.zoom_y = random.uniform(1 - config.zoom, 1 + config.zoom);
  warp.zoom_x = random.uniform(1 - config.zoom, 1 + config.zoom);
  warp.shift_x = random.uniform(-config.shift_horizontal, config.shift_horizontal) * output.width;
  warp.shift_y = random.uniform(-config.shift_vertical, config.shift_vertical) * output.height;
  return warp;
}

void sample_jitter(const AugmentConfig& config, ImageRecord& record, PhiloxStream& random) {
  const auto factor = [&](double spread) {
    return random.uniform(std::max(0.0, 1 - spread), 1 + spread);
  };
  const auto add = [&](JitterKind kind, double amount) {
    record.jitter[record.jitter_steps++] = {kind, amount};
  };
  if (config.brightness > 0) add(JitterKind::brightness, factor(config.brightness));
  if (config.contrast > 0) add(JitterKind::contrast, factor(config.contrast));
  if (config.saturation > 0) add(JitterKind::saturation, factor(config.saturation));
  if (config.hue > 0) add(JitterKind::hue, random.uniform(-config.hue, config.hue));
  for (int i = record.jitter_steps - 1; i > 0; --i) {  // Fisher and Yates
    const uint32_t j = random.below(static_cast<uint32_t>(i + 1));
    std::swap(record.jitter[i], record.jitter[j]);
  }
}

void check_range(const char* key, const Range& range, double low, double high) {
  if (!(range.low >= low && range.low <= range.high && range.high <= high)) {
    fail(ErrorKind::usage, "augment.{}: expected [low, high] within [{}, {}], got [{}, {}]", key,
         low, high, range.low, range.high);
  }
}

// Gamma(shape, 1) by Marsaglia and Tsang (2000); below 1 by their boost.
double sample_gamma(double shape, PhiloxStream& random) {
  if (shape < 1) {
    const double boost = std::pow(1.0 - random.uniform(), 1 / shape);
    return sample_gamma(shape + 1, random) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1.0 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double sample_beta(double alpha, PhiloxStream& random) {
  const double a = sample_gamma(alpha, random);
  const double b = sample_gamma(alpha, random);
  return a + b > 0 ? a / (a + b) : 0.5;
}

}  // namespace

void AugmentConfig::check() const {
  constexpr double huge = 1e6;
  check_range("crop_scale", crop_scale, 1e-6, 1);
  check_range("crop_ratio", crop_ratio, 1e-3, 1e3);
  check_range("erase_scale", erase_scale, 1e-6, 1);
  check_range("erase_ratio", erase_ratio, 1e-3, 1e3);
  const struct {
    const char* key;
    double value;
    double high;
  } bounds[] = {{"flip_horizontal", flip_horizontal, 1},
                {"flip_vertical", flip_vertical, 1},
                {"rotation", rotation, 360},
                {"shear", shear, 89},
                {"zoom", zoom, 0.99},
                {"shift_horizontal", shift_horizontal, 1},
                {"shift_vertical", shift_vertical, 1},
                {"fill_value", fill_value, 255},
                {"brightness", brightness, huge},
                {"contrast", contrast, huge},
                {"saturation", saturation, huge},
                {"hue", hue, 0.5},
                {"erase", erase, 1},
                {"mixup", mixup, huge},
                {"cutmix", cutmix, huge},
                {"rand_augment.num_ops", static_cast<double>(rand_augment_ops), 14},
                {"rand_augment.magnitude", static_cast<double>(rand_augment_magnitude), 30}};
  for (const auto& [key, value, high] : bounds) {
    if (!(value >= 0 && value <= high)) {
      fail(ErrorKind::usage, "augment.{}: expected a number from 0 to {}, got {}", key, high,
           value);
    }
  }
}

// Every image has 2^16 blocks of its own epoch's stream: far more than its draws take.
PhiloxStream stream_for(std::string_view purpose, const DrawKey& key) {
  const uint64_t stream = stream_of(purpose) + key.epoch * 0x9E3779B97F4A7C15ull;
  return {key.seed, stream, key.index << 16};
}

std::array<double, 6> warp_matrix(const WarpParameters& warp) {
  const double cosine = std::cos(warp.rotation), sine = std::sin(warp.rotation);
  const std::array<double, 4> rotate = {cosine, sine, -sine, cosine};
  const std::array<double, 4> slant = {std::cos(warp.shear), 0, -std::sin(warp.shear), 1};
  const auto m = product(product(rotate, slant), {warp.zoom_x, 0, 0, warp.zoom_y});
  return {m[0], m[1], rotate[0] * warp.shift_x + rotate[1] * warp.shift_y,
          m[2], m[3], rotate[2] * warp.shift_x + rotate[3] * warp.shift_y};
}

ImageRecord plain_augmentation(const Preprocess& preprocess, int height, int width) {
  ImageRecord record = preprocess_record(preprocess, height, width);
  if (preprocess.resize_mode == ResizeMode::crop) {
    const ImageSize output = preprocess.output();
    const ImageSize resized = resized_extents(preprocess, height, width);
    const auto shown = [](int full, int after, int cut) {
      return std::clamp(static_cast<int>(std::lround(static_cast<double>(full) * cut / after)), 1,
                        full);
    };
    show_crop(record, output,
              centered_rect(height, width, shown(height, resized.height, output.height),
                            shown(width, resized.width, output.width)));
  }
  return record;
}

ImageRecord sample_augmentation(const AugmentConfig& config, const Preprocess& preprocess,
                                const DrawKey& key, int height, int width) {
  PhiloxStream random = stream_for("augment", key);
  const ImageSize output = preprocess.output();
  ImageRecord record = plain_augmentation(preprocess, height, width);
  if (config.random_resized_crop) {
    show_crop(record, output, resized_crop(config, height, width, random));
  }
  record.flip_horizontal = random.uniform() < config.flip_horizontal;
  record.flip_vertical = random.uniform() < config.flip_vertical;
  Rect& place = record.place;
  if (record.flip_horizontal) place.left = output.width - place.left - place.width;
  if (record.flip_vertical) place.top = output.height - place.top - place.height;
  record.warps = config.rotation > 0 || config.shear > 0 || config.zoom > 0 ||
                 config.shift_horizontal > 0 || config.shift_vertical > 0;
  if (record.warps) {
    std::ranges::copy(warp_matrix(sample_warp(config, output, random)), record.warp);
  }
  record.fill_mode = config.fill_mode;
  record.fill_value = static_cast<float>(config.fill_value);
  sample_jitter(config, record, random);
  if (random.uniform() < config.erase) {
    const auto rect =
        try_rect(config.erase_scale, config.erase_ratio, output.height, output.width, random);
    record.erase = rect.value_or(Rect{});
  }
  return record;
}

BatchMix sample_mix(const AugmentConfig& config, const DrawKey& key, const ImageSize& extents) {
  BatchMix mix;
  if (config.mixup <= 0 && config.cutmix <= 0) return mix;
  PhiloxStream random = stream_for("mix", key);
  const bool cut = config.mixup <= 0 || (config.cutmix > 0 && random.uniform() < 0.5);
  if (!cut) {
    mix.kind = BatchMix::Kind::mixup;
    mix.lambda = sample_beta(config.mixup, random);
    return mix;
  }
  mix.kind = BatchMix::Kind::cutmix;
  const double side = std::sqrt(1 - sample_beta(config.cutmix, random));
  const double center_x = random.uniform() * extents.width;
  const double center_y = random.uniform() * extents.height;
  const auto edge = [](double center, double half, int extent) {
    const int from = std::clamp(static_cast<int>(std::lround(center - half)), 0, extent);
    const int to = std::clamp(static_cast<int>(std::lround(center + half)), 0, extent);
    return std::pair{from, to - from};
  };
  std::tie(mix.box.left, mix.box.width) = edge(center_x, side * extents.width / 2, extents.width);
  std::tie(mix.box.top, mix.box.height) = edge(center_y, side * extents.height / 2, extents.height);
  // The share that is really kept, after rounding and clipping.
  mix.lambda = 1 - static_cast<double>(mix.box.width) * mix.box.height /
                       (static_cast<double>(extents.width) * extents.height);
  return mix;
}

}  // namespace whisker
