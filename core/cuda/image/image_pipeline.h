// The image pipeline of a GPU. Two slots of device memory take turns: while the network computes
// on one batch, the next one's bytes come into the other slot and are resampled there.
#pragma once

#include "core/cuda/image/images.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/streams.h"
#include "core/image/image_pipeline.h"

#include <array>
#include <memory>
#include <optional>

namespace whisker::cuda {

// Note [Slots]
// run() number k uses slot k mod 2:
//   host            waits until the copies of run k - 2 are done: its pinned memory is free then.
//                   They waited for the kernels of run k - 4, so the host is never further ahead.
//   copy stream     waits for `used` of run k - 2, copies bytes and records, records `copied`
//   placing stream  waits for `copied`, resamples, sums mean grays, records `placed_there`
//   compute stream  waits for `placed_there`, finishes the pixels into the inputs, records `used`
// So the compute stream, where the network waits, has the one kernel that writes the inputs; the
// others run beside it. What they alone work in is one buffer for both slots, as the placing stream
// takes one run after the other.
class CudaImagePipeline final : public ImagePipeline {
 public:
  CudaImagePipeline(Context& context, Allocator& allocator);
  ~CudaImagePipeline() override;

  void run(const ImageBatch& batch, std::shared_ptr<const void> keeper,
           const Tensor& inputs) override;

 private:
  struct FreeHost {
    void operator()(void* pinned) const { cudaFreeHost(pinned); }
  };
  struct Slot {
    std::optional<Scratch> bytes;   // the batch's, then planned images
    std::optional<Scratch> placed;  // ImageLaunch::placed, then its means
    std::unique_ptr<kernels::PlannedImage, FreeHost> planned;  // pinned
    int64_t capacity = 0;                                      // planned images
    Event copied;
    Event placed_there;
    Event used;
    std::shared_ptr<const void> keeper;
  };
  /// True when the memory is another one now. It never shrinks. The old one is left to later work
  /// of the compute stream, which has waited for all that the other streams did there.
  bool grow(std::optional<Scratch>& memory, int64_t bytes);

  Context& context_;
  Allocator& allocator_;
  cudaStream_t placing_ = nullptr;
  std::array<Slot, 2> slots_;
  std::optional<Scratch> work_;  // ImageLaunch::weights, then `between`
  Event allocated_;
  size_t next_ = 0;
};

}  // namespace whisker::cuda
