// RandAugment (Cubuk et al. 2020) and TrivialAugment (Mueller and Hutter 2021) as torchvision
// defines them, pixel by pixel as Pillow computes the operations. Always on the host, on RGB,
// behind crop, resize, flip and place: a GPU does what follows.
#pragma once

#include "data/codec/image.h"
#include "data/transforms/augment_sampler.h"

#include <cstdint>
#include <vector>

namespace whisker {

/// In torchvision's order.
enum class PolicyOperation : uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
};
inline constexpr int policy_operations = 14;

struct PolicyStep {
  PolicyOperation operation = PolicyOperation::identity;
  /// Shear: tangent; translation: pixels; rotation: degrees; the four factors: above 1; posterize:
  /// bits that stay; solarize: threshold.
  double magnitude = 0;
};

/// What rand_augment or trivial_augment does to image `key.index` of epoch `key.epoch`.
std::vector<PolicyStep> sample_policy(const AugmentConfig& config, const DrawKey& key,
                                      const ImageSize& size);

/// Moved parts show black.
void apply_policy(const std::vector<PolicyStep>& steps, Image& image);

}  // namespace whisker
