// Images to the network's input on the network's device: finished here for a host device, handed
// to the device's kernels otherwise, in either case exactly as validation sees them.
#pragma once

#include "core/image/image_pipeline.h"
#include "core/memory/free_list.h"
#include "data/codec/decode.h"
#include "data/staging/image_staging.h"
#include "data/transforms/transform_image.h"
#include "train/model/network.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace whisker {

class ImageInput {
 public:
  explicit ImageInput(const Network& network);

  /// The images of a batch, by row.
  struct Batch {
    std::shared_ptr<ImageRows> packed = nullptr;  // for a device; null: values are made here
    std::vector<std::vector<float>> values = {};
  };
  Batch batch(int64_t rows) const;
  /// The pixels of an image that set() reads. Thread-safe.
  Rect part_read(const ImageHeader& image) const;
  /// Thread-safe for rows that differ.
  void set(Batch& batch, int64_t row, const Image& image, bool mirrored = false);
  /// images (rows.size(), H, W, C): those of the rows named, ascending, which are all set.
  Tensor take(Batch batch, std::span<const int64_t> rows);

 private:
  struct Scratch {
    PackScratch pack;
    TransformScratch transform;
  };

  Preprocess preprocess_;
  Device device_;
  DType dtype_;
  std::unique_ptr<ImagePipeline> pipeline_;  // null on a host device
  std::shared_ptr<PinnedPool> pool_;
  FreeList<Scratch> scratches_;
};

}  // namespace whisker
