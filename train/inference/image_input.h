// Single images to the network's input on the network's device: finished here for a host
// device, handed to the device's kernels otherwise, in either case exactly as validation sees them.
#pragma once

#include "core/image/image_pipeline.h"
#include "data/staging/image_staging.h"
#include "data/transforms/transform_image.h"
#include "train/model/network.h"

#include <memory>
#include <vector>

namespace whisker {

class ImageInput {
 public:
  /// For batches of up to `rows` images.
  ImageInput(const Network& network, int64_t rows);

  void add(const Image& image, bool mirrored = false);
  int64_t count() const { return count_; }
  /// images (count, H, W, C) of what was added since the last call; at least one was.
  Tensor take();

 private:
  Shape batch_shape() const;

  Preprocess preprocess_;
  Device device_;
  DType dtype_;
  int64_t rows_;
  int64_t count_ = 0;
  std::unique_ptr<ImagePipeline> pipeline_;  // null: values are made here
  std::shared_ptr<PinnedPool> pool_;
  std::shared_ptr<ImageRows> images_;
  std::vector<float> values_;
  TransformScratch scratch_;
  PackScratch pack_scratch_;
};

}  // namespace whisker
