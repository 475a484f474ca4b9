// One picture's augmentation: a plain record of what to do, sampled elsewhere (augment_sampler.h),
// and the function that does it on the CPU. The order is fixed: crop and resize, place, flip, warp,
// jitter, normalise, erase. Thread-safe; enters no OpenMP region.
#pragma once

#include "data/color_jitter.h"
#include "data/decode.h"
#include "data/normalise.h"
#include "data/picture.h"
#include "data/resize.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace whisker {

struct AugmentRecord {
  Rect crop{};  ///< of the upright picture at full resolution
  int height = 0;
  int width = 0;
  int channels = 3;  ///< 3, or 1: gray_of() right after resizing
  Interpolation interpolation = Interpolation::bilinear;
  bool antialias = true;
  /// Where the resized crop goes in the (height, width) output, the rest being black; nothing: all
  /// of it.
  std::optional<Rect> place = {};
  bool flip_horizontal = false;
  bool flip_vertical = false;
  /// The warp: the output at (x, y) shows (m0 x + m1 y + m2, m3 x + m4 y + m5), interpolated
  /// bilinearly, in pixels from the picture's center.
  std::optional<std::array<double, 6>> warp = {};
  FillMode fill_mode = FillMode::nearest;
  double fill_value = 0;  ///< for FillMode::constant, in [0, 255]
  std::array<JitterStep, most_jitter_steps> jitter{};
  int jitter_steps = 0;
  Normalisation normalisation{};
  std::optional<Rect> erase = {};  ///< set to erase_value after normalising
  std::array<double, 3> erase_value{0, 0, 0};
};

/// What augment_picture() keeps between calls; one per thread.
struct AugmentScratch {
  ResizeScratch resize;
  Picture resized;
  Picture placed;
  std::vector<float> pixels;  // (H, W, 3) in [0, 255]
  std::vector<float> warped;
};

/// Applies `record` to a decoded picture (exact, or fast for `record.crop`) and writes
/// (height, width, channels) values. Throws usage when the crop leaves the picture or sizes
/// disagree.
void augment_picture(const Decoded& decoded, const AugmentRecord& record, std::span<float> out,
                     AugmentScratch& scratch);

/// The same for a whole picture at full resolution.
void augment_picture(const Picture& picture, const AugmentRecord& record, std::span<float> out,
                     AugmentScratch& scratch);

}  // namespace whisker
