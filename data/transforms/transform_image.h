// One image to the network's input on the host: what an ImageRecord says, in this order: crop and
// resize, flip, place, warp, jitter, normalise, erase. Thread-safe; enters no OpenMP region.
#pragma once

#include "core/image/image_record.h"
#include "data/codec/decode.h"
#include "data/transforms/auto_augment.h"
#include "data/transforms/preprocess.h"
#include "data/transforms/resize.h"

#include <span>
#include <vector>

namespace whisker {

/// What transform_image() keeps between calls; one per thread.
struct TransformScratch {
  ResizeScratch resize;
  Image resized;
  Image placed;
  std::vector<float> pixels;  // (H, W, 3) in [0, 255]
  std::vector<float> warped;
};

/// The memory of one network input.
struct ImageOutput {
  std::span<float> values;  // (H, W, C)
  ImageSize size{};
  int channels = 3;  ///< 3, or 1: gray_of() right after resizing
};

/// Makes `output` of `source`, the pixels that the axes of `record` are about. Throws usage when
/// the axes leave the source, or extents disagree.
/// A `policy` (data/transforms/auto_augment.h) comes between place and warp.
void transform_image(const ImageView& source, const ImageRecord& record, const ImageOutput& output,
                     TransformScratch& scratch, const std::vector<PolicyStep>& policy = {});

/// What the policy and the steps before it make of `source`: an image of `size`. The record is
/// about this image from then on.
const Image& transform_by_policy(const ImageView& source, ImageRecord& record, ImageSize size,
                                 TransformScratch& scratch, const std::vector<PolicyStep>& policy);

/// The pixels of `decoded` (exact, or fast for the record's crop) that the crop touches. The
/// record's axes are about them from then on.
ImageView crop_source(const Decoded& decoded, ImageRecord& record);

}  // namespace whisker
