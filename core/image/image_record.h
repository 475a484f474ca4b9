// What is done to one decoded image on its way into a batch, as plain data: the loader's threads
// fill it, the host or a device reads it. The order is fixed: resample, flip, place on black, gray,
// warp, jitter, normalise, erase; then rows are mixed. The arithmetic is
// core/image/image_arithmetic.h.
#pragma once

#include <cstdint>

namespace whisker {

/// Whole pixels: columns [left, left + width), rows [top, top + height).
struct Rect {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  bool operator==(const Rect&) const = default;
};

/// Interpolation filters: triangle, and Keys' cubic with a = -0.5 (Keys 1981).
enum class Interpolation { bilinear, bicubic };

/// One axis of a resize: samples [first, first + count) of `out` ones over [from, to) of `in` ones.
struct ResizeAxis {
  int in = 0;
  double from = 0;
  double to = 0;
  int out = 0;
  int first = 0;
  int count = 0;
};

/// What a warp shows outside the image (Keras' fill_mode, SciPy's names differ):
/// constant kkkk|abcd|kkkk, nearest aaaa|abcd|dddd, reflect dcba|abcd|dcba, wrap abcd|abcd|abcd.
enum class FillMode { constant, nearest, reflect, wrap };

/// One step of color jitter on values in [0, 255], each clamped to that range afterwards:
/// brightness v * amount; contrast v * amount + (1 - amount) * (mean gray of the image);
/// saturation v * amount + (1 - amount) * (gray of the pixel); hue: HSV hue + amount turns.
/// Gray is 0.299 R + 0.587 G + 0.114 B. (torchvision's ColorJitter on float images.)
enum class JitterKind { brightness, contrast, saturation, hue };
struct JitterStep {
  JitterKind kind = JitterKind::brightness;
  double amount = 1;
};

/// How a batch is mixed. Row i of the result is lambda * row i + (1 - lambda) * row i - 1 (row 0
/// with the last): of values for mixup; for cutmix of labels, rows i - 1 showing inside `box`.
struct BatchMix {
  enum class Kind { none, mixup, cutmix };
  Kind kind = Kind::none;
  double lambda = 1;
  Rect box{};
};

inline constexpr int most_jitter_steps = 4;

struct ImageRecord {
  /// The source: this rectangle of the upright image as decoded or cached; after skip_resampling()
  /// all of the resampled one. `columns` and `rows` are about it.
  Rect crop{};
  /// Where a device finds the source: pixel (y, x), 0 <= y < rows.in and 0 <= x < columns.in,
  /// starts at byte offset + y * stride + 3 * x of the batch's bytes; of the device's memory (an
  /// address) when `resident`. Only pixels of nonzero weight are there.
  int64_t offset = 0;
  int64_t stride = 0;
  bool resident = false;

  bool antialias = true;
  bool flip_horizontal = false;
  bool flip_vertical = false;
  Interpolation interpolation = Interpolation::bilinear;
  ResizeAxis columns{};
  ResizeAxis rows{};
  /// Where the resampled and flipped pixels lie in the (H, W) output, the rest being black. Its
  /// extents are columns.count and rows.count.
  Rect place{};

  /// The warp: the output at (x, y) shows (m0 x + m1 y + m2, m3 x + m4 y + m5), interpolated
  /// bilinearly, in pixels from the image's center.
  bool warps = false;
  FillMode fill_mode = FillMode::nearest;
  float fill_value = 0;  ///< for FillMode::constant, in [0, 255]
  double warp[6] = {};

  int jitter_steps = 0;
  JitterStep jitter[most_jitter_steps] = {};

  float factor[3] = {1, 1, 1};  ///< y = v * factor + shift, per channel
  float shift[3] = {0, 0, 0};
  Rect erase{};  ///< set to 0, the mean, after normalising
};

}  // namespace whisker
