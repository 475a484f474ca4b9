// Mixing the pictures of a batch in place: mixup (Zhang et al. 2018) and cutmix (Yun et al. 2019),
// as drawn by sample_mix(). Row i is mixed with row i - 1, the first with the last.
#pragma once

#include "data/augment_sampler.h"

#include <cstdint>
#include <span>

namespace whisker {

/// One batch in memory, N rows.
struct MixRows {
  std::span<float> images;          ///< (N, H, W, C)
  std::span<const int64_t> labels;  ///< (N)
  std::span<float> soft_labels;     ///< (N, classes), written
  int64_t height = 0;
  int64_t width = 0;
};

/// Mixes the rows and writes the soft labels: lambda for the row's own class, the rest for its
/// partner's. Throws data for a label that is not in [0, classes).
void mix_batch(const BatchMix& mix, const MixRows& rows);

}  // namespace whisker
