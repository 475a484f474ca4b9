// Batches of JPEG files decoded by nvJPEG. Each batch has its stream, so that the GPU's JPEG engine
// works while the compute stream trains; the thread that asks sleeps until the pixels are there.
#pragma once

#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/streams.h"
#include "core/image/jpeg_decoder.h"
#include "core/nvidia/nvjpeg.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace whisker::cuda {

// Note [Decoded memory]
// The memory of decoded images comes from the driver and is kept by the decoder: the allocator's
// blocks are ordered on the compute stream, which the loader's threads must not touch while a step
// is being captured. A block that comes back is written again only after the kernels that read it:
// they record `used`, and the next decoder's stream waits for that.
class DecodedMemory {
 public:
  DecodedMemory() = default;
  ~DecodedMemory();
  DecodedMemory(const DecodedMemory&) = delete;
  DecodedMemory& operator=(const DecodedMemory&) = delete;

  struct Block {
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
    Event used;
  };
  /// A free block of at least `bytes`, or null when the GPU has none left. Thread-safe.
  std::unique_ptr<Block> take(int64_t bytes);
  void give(std::unique_ptr<Block> block);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> free_;
  size_t made_ = 0;  // blocks: free_ has the capacity for all, so that give() never fails
};

class CudaDecodedImages final : public DecodedImages {
 public:
  CudaDecodedImages(std::shared_ptr<DecodedMemory> owner,
                    std::unique_ptr<DecodedMemory::Block> block)
      : owner_(std::move(owner)), block_(std::move(block)) {}
  ~CudaDecodedImages() override { owner_->give(std::move(block_)); }
  CudaDecodedImages(const CudaDecodedImages&) = delete;
  CudaDecodedImages& operator=(const CudaDecodedImages&) = delete;

  const uint8_t* memory() const override { return block_->memory; }
  /// `stream` goes on once nobody reads what was here before.
  void wait_until_free(cudaStream_t stream) const { block_->used.make_wait(stream); }
  /// Whatever `stream` does so far is all that reads the images.
  void mark_used(cudaStream_t stream) const { block_->used.record(stream); }

 private:
  std::shared_ptr<DecodedMemory> owner_;
  std::unique_ptr<DecodedMemory::Block> block_;
};

class CudaJpegDecoder final : public JpegDecoder {
 public:
  CudaJpegDecoder(Context& context, std::unique_ptr<Nvjpeg> library);
  ~CudaJpegDecoder() override;
  CudaJpegDecoder(const CudaJpegDecoder&) = delete;
  CudaJpegDecoder& operator=(const CudaJpegDecoder&) = delete;

  std::string description() override;
  bool accepts(std::span<const uint8_t> file) override;
  std::shared_ptr<const DecodedImages> decode(std::span<const JpegImage> images,
                                              int64_t bytes) override;
  std::string refusal() const override;

 private:
  // What one batch at a time is decoded with.
  struct Lane;
  const Nvjpeg::Handle* handle();
  std::unique_ptr<Lane> take_lane(const Nvjpeg::Handle& handle);
  std::shared_ptr<const DecodedImages> refuse(std::string why);

  Context& context_;
  std::unique_ptr<Nvjpeg> library_;
  std::shared_ptr<DecodedMemory> memory_ = std::make_shared<DecodedMemory>();
  mutable std::mutex mutex_;  // guards all below
  bool started_ = false;
  std::unique_ptr<Nvjpeg::Handle> handle_;    // null: not started, or in vain
  std::vector<std::unique_ptr<Lane>> lanes_;  // free ones
  std::string refusal_;
};

}  // namespace whisker::cuda
