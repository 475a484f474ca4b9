// The preprocessing that belongs to a model: how an upright picture becomes its input. Stored in
// the weights file under exactly the keys below, and used alike by train (as the base of
// augmentation), evaluate and classify.
#pragma once

#include "data/normalise.h"
#include "data/picture.h"
#include "data/resize.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// crop: shrink or enlarge, keeping the shape, then cut the center out; squash: to `size`, shape
/// lost; letterbox: whole into `size`, keeping the shape, black bars around.
enum class ResizeMode { crop, squash, letterbox };

struct PictureSize {
  int height = 0;
  int width = 0;
  bool operator==(const PictureSize&) const = default;
};

struct Preprocess {
  /// Short side after resizing (mode crop, as torchvision's Resize(int)); 0 when `size` is used.
  int resize_short = 0;
  /// Extents after resizing; in mode crop the picture is made to cover them. {0, 0}: not used.
  PictureSize size{};
  /// What is cut out of the center in mode crop; {0, 0}: `size`, or a square of resize_short.
  PictureSize crop{};
  ResizeMode resize_mode = ResizeMode::crop;
  Interpolation interpolation = Interpolation::bilinear;
  bool antialias = true;
  int channels = 3;  ///< 3, or 1: gray
  Normalisation normalisation{};

  /// Throws usage for extents that are missing, contradict each other or do not fit.
  void check() const;
  /// Extents of the network's input.
  PictureSize output() const;

  /// A JSON object with the keys resize_short or size, crop, resize_mode, interpolation, antialias,
  /// channels ("RGB" or "gray"), scale, mean, std. Extents are one number for squares, else
  /// [height, width]; mean and std have one number per channel.
  std::string json() const;
  /// Reads json(); missing keys keep their defaults. `name` is the file for errors. Throws
  /// checkpoint for an unknown or repeated key, a value of the wrong type, and what check()
  /// refuses.
  static Preprocess from_json(std::string_view text, const std::string& name);
};

/// Extents after resizing a (height, width) picture, before the crop or the bars.
PictureSize resized_extents(const Preprocess& preprocess, int height, int width);

/// Where a centered extent starts: Python's round((outer - inner) / 2), half to even.
int centered_offset(int outer, int inner);

struct PreprocessScratch {
  ResizeScratch resize;
  Picture resized;
  Picture placed;
};

/// `picture` to `out` (H, W, channels) with extents preprocess.output(). Throws usage when `out`
/// has another size.
void apply(const Preprocess& preprocess, const Picture& picture, std::span<float> out,
           PreprocessScratch& scratch);
std::vector<float> apply(const Preprocess& preprocess, const Picture& picture);

}  // namespace whisker
