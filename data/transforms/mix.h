// Mixing the images of a batch in place: mixup (Zhang et al. 2018) and cutmix (Yun et al. 2019),
// as drawn by sample_mix(). Row i is mixed with row i - 1, the first with the last.
#pragma once

#include "core/image/image_record.h"

#include <cstdint>
#include <span>

namespace whisker {

/// The images of a batch in memory.
struct MixRows {
  std::span<float> images;  ///< (N, H, W, C)
  int64_t rows = 0;
  int64_t height = 0;
  int64_t width = 0;
};
void mix_images(const BatchMix& mix, const MixRows& batch);

/// Writes the soft labels (N, classes): lambda for the row's own class, the rest for its partner's.
/// Throws data for a label that is not in [0, classes).
void mix_labels(const BatchMix& mix, std::span<const int64_t> labels, std::span<float> soft_labels);

}  // namespace whisker
