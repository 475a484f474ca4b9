// The way of decoded images into the network's input on a device: bytes and one record per
// image in, a normalised batch out. Which image, which crop and which colors were decided
// before; nothing here is random.
#pragma once

#include "core/image/image_record.h"
#include "core/image/jpeg_decoder.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace whisker {

/// A part of a batch's bytes, in host memory from Backend::allocate_pinned.
struct ImagePiece {
  const uint8_t* host = nullptr;
  int64_t at = 0;  ///< of the batch's bytes
  int64_t bytes = 0;
};

/// Bytes of a batch to be copied to `target`, device memory, where later batches find them.
struct ImageCopy {
  int64_t at = 0;
  int64_t bytes = 0;
  void* target = nullptr;
};

struct ImageBatch {
  std::span<const ImageRecord> records;  ///< (N)
  std::vector<ImagePiece> pieces = {};   ///< disjoint, in ascending order
  std::vector<ImageCopy> copies = {};
  /// Images of this device's JpegDecoder, for records with an address in it. Null: there are none.
  std::shared_ptr<const DecodedImages> decoded = {};
  int channels = 3;  ///< 3, or 1: gray
  BatchMix mix = {};
};

/// One thread uses a pipeline; batches come out in the order of the device's operators.
class ImagePipeline {
 public:
  virtual ~ImagePipeline() = default;
  /// Writes inputs (N, H, W, batch.channels) of dtype f32, bf16 or f16. Does not wait for the
  /// device, except for one that has fallen several batches behind. `keeper` is held until the
  /// pieces have been read.
  virtual void run(const ImageBatch& batch, std::shared_ptr<const void> keeper,
                   const Tensor& inputs) = 0;
};

}  // namespace whisker
