// Antialiased resampling of 8-bit images with Pillow's arithmetic: separable, columns first,
// weights of 22 fractional bits, an 8-bit image between the passes. Bit-equal to Pillow's
// Image.resize(size, resample, box) up to version 12 on every machine, whichever kernel runs; to 13
// but where the height loses more than twice the pixels that the width does. There Pillow 13 takes
// rows first, which changes bilinear results by a level and bicubic ones where they overshoot.
#pragma once

#include "data/codec/image.h"
#include "data/transforms/resize_kernels.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace whisker {

struct ResizeOptions {
  int height = 0;
  int width = 0;
  Interpolation interpolation = Interpolation::bilinear;
  /// Widens the filter when shrinking, so that every source pixel counts; off: point sampling.
  bool antialias = true;
  /// The part of the (height, width) result that is computed and returned; nothing: all of it.
  std::optional<Rect> window = {};
  /// Mirrors the result, at no cost: the columns' weights, or the rows, are taken in reverse.
  bool flip_horizontal = false;
  bool flip_vertical = false;
};

/// What resize() keeps between calls: weights and the image between the passes. One per thread.
struct ResizeScratch {
  AxisWeights columns;
  AxisWeights rows;
  std::vector<double> exact;      // one output's weights before rounding
  std::vector<uint8_t> between;   // (rows needed, W_out, 3), padded rows
  std::vector<uint8_t> last_row;  // a source row with padding behind it
};

/// Resamples `box` of `source` into `out`, which is given the extents of `options`, or of its
/// window. Samples outside the view are never used: a box that is the whole view equals cropping
/// first. Throws usage for an empty target, a window outside it, or a box that is empty or leaves
/// the view.
void resize(const ImageView& source, const Box& box, const ResizeOptions& options, Image& out,
            ResizeScratch& scratch);

/// Resamples and flips as `record` says: resize() along its axes, which are about `source`.
void resize(const ImageView& source, const ImageRecord& record, Image& out, ResizeScratch& scratch);

/// `image` at `place` of a black (height, width) image; `place` has its extents and lies
/// inside.
void place_on_black(const Image& image, const Rect& place, int height, int width, Image& out);

/// The weights of `axis`; `exact` is scratch.
void make_axis_weights(const ResizeAxis& axis, const ResizeOptions& options,
                       std::vector<double>& exact, AxisWeights& weights);

}  // namespace whisker
