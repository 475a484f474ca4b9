// The preprocessing that belongs to a model: how an upright image becomes its input. Stored in
// the weights file under exactly the keys below, and used alike by train (as the base of
// augmentation), evaluate and classify.
#pragma once

#include "core/image/image_record.h"
#include "data/files/decode_rules.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace whisker {

/// Largest scale, mean and std; the smallest scale and std is its inverse. Far beyond what any
/// pixels need, and far from what f32 cannot hold.
inline constexpr double most_normalisation = 1e6;

/// Pixel values times `scale`, then per channel minus `mean`, divided by `std`. Element 0 is that
/// of single-channel images.
struct Normalisation {
  double scale = 1.0 / 255;
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};

  /// y = v * factor(c) + offset(c), rounded to single precision once.
  float factor(size_t c) const { return static_cast<float>(scale / std[c]); }
  float offset(size_t c) const { return static_cast<float>(-mean[c] / std[c]); }
};

/// crop: shrink or enlarge, keeping the shape, then cut the center out; squash: to `size`, shape
/// lost; letterbox: whole into `size`, keeping the shape, black bars around; squash_crop: squash,
/// then cut the center out.
enum class ResizeMode { crop, squash, letterbox, squash_crop };

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};

struct Preprocess {
  /// Short side after resizing (mode crop, as torchvision's Resize(int)); 0 when `size` is used.
  int resize_short = 0;
  /// Extents after resizing; in mode crop the image is made to cover them. {0, 0}: not used.
  ImageSize size{};
  /// What is cut out of the center in modes crop and squash_crop; {0, 0}: `size`, or a square of
  /// resize_short.
  ImageSize crop{};
  ResizeMode resize_mode = ResizeMode::crop;
  Interpolation interpolation = Interpolation::bilinear;
  bool antialias = true;
  int channels = 3;  ///< 3, or 1: gray
  /// How files are decoded; new runs have the newest version.
  DecodeRules rules{.version = 1};
  Normalisation normalisation{};

  /// Throws usage for extents that are missing, contradict each other or do not fit.
  void check() const;
  /// Extents of the network's input.
  ImageSize output() const;

  /// A JSON object with the keys resize_short or size, crop, resize_mode, interpolation, antialias,
  /// channels ("RGB" or "gray"), scale, mean, std, rules (unless 1), png_bits
  /// (unless 16). Extents are one number for
  /// squares, else [height, width]; mean and std have one number per channel.
  std::string json() const;
  /// Reads json(); missing keys keep their defaults. `name` is the file for errors. Throws
  /// checkpoint for an unknown or repeated key, a value of the wrong type, and what check()
  /// refuses.
  static Preprocess from_json(std::string_view text, const std::string& name);
};

/// Extents after resizing a (height, width) image, before the crop or the bars.
ImageSize resized_extents(const Preprocess& preprocess, int height, int width);

/// Where a centered extent starts: Python's round((outer - inner) / 2), half to even.
int centered_offset(int outer, int inner);

/// What becomes of a whole (height, width) image: resized, then its center cut out or placed on
/// black, and normalised.
ImageRecord preprocess_record(const Preprocess& preprocess, int height, int width);

}  // namespace whisker
