// Single pictures to the network's input on the network's device: finished here for a host
// device, handed to the device's kernels otherwise, in either case exactly as validation sees them.
#pragma once

#include "core/picture_pipeline.h"
#include "data/picture_stage.h"
#include "train/network.h"

#include <memory>
#include <vector>

namespace whisker {

class PictureInput {
 public:
  /// For batches of up to `rows` pictures.
  PictureInput(const Network& network, int64_t rows);

  void add(const Picture& picture);
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
  std::unique_ptr<PicturePipeline> pipeline_;  // null: values are made here
  std::shared_ptr<PinnedShelf> shelf_;
  std::shared_ptr<PictureRows> pictures_;
  std::vector<float> values_;
  PreprocessScratch scratch_;
  StageScratch stage_scratch_;
};

}  // namespace whisker
