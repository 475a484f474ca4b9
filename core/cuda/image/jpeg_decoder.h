// Batches of JPEG files decoded by nvJPEG. Each batch has its stream, so that the GPU's JPEG engine
// works while the compute stream trains; the thread that asks sleeps until the pixels are there.
#pragma once

#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/streams.h"
#include "core/image/jpeg_decoder.h"
#include "core/memory/free_list.h"
#include "core/nvidia/nvjpeg.h"

#include <memory>
#include <string>

namespace whisker::cuda {

// Note [Decoded memory]
// The memory of decoded images comes from the driver and is kept by the decoder: the allocator's
// blocks are ordered on the compute stream, which the loader's threads must not touch while a step
// is being captured. A block that comes back is written again only after the kernels that read it:
// they record `used`, and the next decoder's stream waits for that.
class CudaDecodedImages final : public DecodedImages {
 public:
  struct Block {
    ~Block() { cudaFree(memory); }
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
    Event used;
  };
  /// Memory of at least `bytes`. Throws device when the GPU has none left.
  CudaDecodedImages(std::shared_ptr<FreeList<Block>> pool, int64_t bytes);
  ~CudaDecodedImages() override { pool_->give(std::move(block_)); }
  CudaDecodedImages(const CudaDecodedImages&) = delete;
  CudaDecodedImages& operator=(const CudaDecodedImages&) = delete;

  const uint8_t* memory() const override { return block_->memory; }
  uint8_t* memory() { return block_->memory; }
  /// `stream` goes on once nobody reads what was here before.
  void wait_until_free(cudaStream_t stream) const { block_->used.make_wait(stream); }
  /// Whatever `stream` does so far is all that reads the images.
  void mark_used(cudaStream_t stream) const { block_->used.record(stream); }

 private:
  std::shared_ptr<FreeList<Block>> pool_;
  std::unique_ptr<Block> block_;
};

class CudaJpegDecoder final : public JpegDecoder {
 public:
  /// `context` is that of the thread's device. Throws device when nvJPEG is not there or does not
  /// start.
  explicit CudaJpegDecoder(Context& context);
  ~CudaJpegDecoder() override;
  CudaJpegDecoder(const CudaJpegDecoder&) = delete;
  CudaJpegDecoder& operator=(const CudaJpegDecoder&) = delete;

  std::string description() const override;
  bool accepts(std::span<const uint8_t> file) const override;
  std::shared_ptr<const DecodedImages> decode(std::span<const JpegImage> images,
                                              int64_t bytes) override;

 private:
  struct Lane;
  Context& context_;
  Nvjpeg library_;
  std::shared_ptr<FreeList<CudaDecodedImages::Block>> memory_ =
      std::make_shared<FreeList<CudaDecodedImages::Block>>();
  FreeList<Lane> lanes_;
};

}  // namespace whisker::cuda
