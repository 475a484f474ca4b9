// Draws what augmentation does to image `index` of epoch `epoch`: crop, flips, warp, colors. Every
// draw is keyed by (seed, epoch, index) alone, so any number of workers gives the same images.
#pragma once

#include "core/tensor/philox.h"
#include "data/transforms/preprocess.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace whisker {

struct Range {
  double low = 0;
  double high = 0;
};

/// Ranges to draw from; the defaults change nothing.
struct AugmentConfig {
  /// Random resized crop (torchvision's RandomResizedCrop): a share of the area and an aspect ratio
  /// (width / height), ten tries, then the largest centered crop within the ratios.
  bool random_resized_crop = false;
  Range crop_scale{0.08, 1};
  Range crop_ratio{3.0 / 4, 4.0 / 3};
  double flip_horizontal = 0;  ///< probability
  double flip_vertical = 0;    ///< probability
  // One or the other, see data/transforms/auto_augment.h.
  int64_t rand_augment_ops = 0;        ///< operations per image
  int64_t rand_augment_magnitude = 9;  ///< of torchvision's 31 bins, 0 to 30
  bool trivial_augment = false;
  // Keras' ImageDataGenerator: angles in degrees; zoom is drawn from [1 - zoom, 1 + zoom] for each
  // axis (above 1 shrinks the image); shifts are shares of the extents.
  double rotation = 0;
  double shear = 0;
  double zoom = 0;
  double shift_horizontal = 0;
  double shift_vertical = 0;
  FillMode fill_mode = FillMode::nearest;
  double fill_value = 0;
  // torchvision's ColorJitter: factors from [max(0, 1 - x), 1 + x], hue turns from [-hue, hue], the
  // four in random order.
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  /// torchvision's RandomErasing: probability, share of the area, aspect ratio (width / height,
  /// where torchvision's is height / width); erased to the mean.
  double erase = 0;
  Range erase_scale{0.02, 0.33};
  Range erase_ratio{0.3, 3.3};
  // Beta(alpha, alpha) mixing of each batch with itself rolled by one (Zhang et al. 2018; Yun et
  // al. 2019); 0 switches one off, with both on each batch takes either with probability 1/2.
  double mixup = 0;
  double cutmix = 0;

  bool has_policy() const { return rand_augment_ops > 0 || trivial_augment; }

  /// Throws usage, naming augment.<key>, for a range that is empty or out of bounds.
  void check() const;
};

/// Which draw: the run's seed, the epoch, and the image's index in the dataset.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t index = 0;
};

/// The random numbers for one purpose of one image.
PhiloxStream stream_for(std::string_view purpose, const DrawKey& key);

/// What a warp is made of: angles in radians, shifts in pixels; a zoom above 1 shrinks.
struct WarpParameters {
  double rotation = 0;
  double shear = 0;
  double zoom_x = 1;
  double zoom_y = 1;
  double shift_x = 0;
  double shift_y = 0;
};

/// ImageRecord::warp of Keras' product rotation * shift * shear * zoom, which is in (row, column)
/// there (keras_preprocessing.image.apply_affine_transform).
std::array<double, 6> warp_matrix(const WarpParameters& warp);

/// The record for a `height` x `width` upright image.
ImageRecord sample_augmentation(const AugmentConfig& config, const Preprocess& preprocess,
                                const DrawKey& key, int height, int width);

/// The record that every sampled one starts from: preprocess_record(), but in mode crop the part of
/// the full image that the crop shows is rounded to whole pixels and resized alone, so that
/// decoding needs no more of the image.
ImageRecord plain_augmentation(const Preprocess& preprocess, int height, int width);

/// `key.index` is the batch's number in the epoch; `extents` are those of the network's input.
BatchMix sample_mix(const AugmentConfig& config, const DrawKey& key, const ImageSize& extents);

}  // namespace whisker
