// The way of decoded pictures into the network's input on a device: bytes and one record per
// picture in, a normalised batch out. Which picture, which crop and which colors were decided
// before; nothing here is random.
#pragma once

#include "core/jpeg_decoder.h"
#include "core/picture_record.h"
#include "core/tensor.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace whisker {

/// A part of a batch's bytes, in host memory from Backend::allocate_pinned.
struct PicturePiece {
  const uint8_t* host = nullptr;
  int64_t at = 0;  ///< of the batch's bytes
  int64_t bytes = 0;
};

/// Bytes of a batch to be copied to `target`, device memory, where later batches find them.
struct PictureCopy {
  int64_t at = 0;
  int64_t bytes = 0;
  void* target = nullptr;
};

struct PictureBatch {
  std::span<const PictureRecord> records;  ///< (N)
  std::vector<PicturePiece> pieces = {};   ///< disjoint, in ascending order
  std::vector<PictureCopy> copies = {};
  /// Of this device's JpegDecoder: what records with an address in it show. Null: there are none.
  std::shared_ptr<const DecodedPictures> decoded = {};
  int channels = 3;  ///< 3, or 1: gray
  BatchMix mix = {};
};

/// One thread uses a pipeline; batches come out in the order of the device's operators.
class PicturePipeline {
 public:
  virtual ~PicturePipeline() = default;
  /// Writes images (N, H, W, C), C >= batch.channels, of dtype f32, bf16 or f16; channels beyond
  /// the pictures' are zero. Does not wait for the device, except for one that has fallen several
  /// batches behind. `keeper` is held until the pieces have been read.
  virtual void run(const PictureBatch& batch, std::shared_ptr<const void> keeper,
                   const Tensor& images) = 0;
};

/// The pipeline of devices that compute in host memory: plain loops, one thread.
std::unique_ptr<PicturePipeline> make_host_picture_pipeline();

}  // namespace whisker
