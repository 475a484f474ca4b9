// Draws augmentation records: which crop, flip, warp and color for picture `index` of epoch
// `epoch`. Every draw is keyed by (seed, epoch, index) alone, so any number of workers gives the
// same pictures.
#pragma once

#include "data/augment.h"
#include "data/preprocess.h"

#include <cstdint>

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
  // Keras' ImageDataGenerator: angles in degrees; zoom is drawn from [1 - zoom, 1 + zoom] for each
  // axis (above 1 shrinks the picture); shifts are shares of the extents.
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
  /// torchvision's RandomErasing: probability, share of the area, aspect ratio; erased to the mean.
  double erase = 0;
  Range erase_scale{0.02, 0.33};
  Range erase_ratio{0.3, 3.3};
  // Beta(alpha, alpha) mixing of each batch with itself rolled by one (Zhang et al. 2018; Yun et
  // al. 2019); 0 switches one off, with both on each batch takes either with probability 1/2.
  double mixup = 0;
  double cutmix = 0;

  /// Throws usage, naming augment.<key>, for a range that is empty or out of bounds.
  void check() const;
};

/// Which draw: the run's seed, the epoch, and the picture's place in the dataset.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t index = 0;
};

/// The record for a `height` x `width` upright picture.
AugmentRecord sample_augmentation(const AugmentConfig& config, const Preprocess& preprocess,
                                  const DrawKey& key, int height, int width);

/// The record that `preprocess` alone amounts to: what every sampled one starts from. In mode crop
/// the rectangle of the full picture that the crop shows is rounded to whole pixels.
AugmentRecord plain_augmentation(const Preprocess& preprocess, int height, int width);

/// `key.index` is the batch's number in the epoch; `extents` are those of the network's input.
BatchMix sample_mix(const AugmentConfig& config, const DrawKey& key, const PictureSize& extents);

}  // namespace whisker
