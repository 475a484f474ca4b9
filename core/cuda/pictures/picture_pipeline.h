// The picture pipeline of a GPU. Two slots of device memory take turns: while the network computes
// on one batch, the next one's bytes come into the other slot and are resampled there.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/cuda/gpu/event.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/pictures/pictures.h"
#include "core/picture_pipeline.h"

#include <array>
#include <memory>

namespace whisker::cuda {

// Note [Slots]
// run() number k uses slot k mod 2:
//   host            waits until the copies of run k - 2 are done: its pinned memory is free then.
//                   They waited for the kernels of run k - 4, so the host is never further ahead.
//   copy stream     waits for `used` of run k - 2, copies bytes and records, records `copied`
//   placing stream  waits for `copied`, resamples, sums mean grays, records `placed_there`
//   compute stream  waits for `placed_there`, finishes the pixels into the images, records `used`
// So the compute stream, where the network waits, has the one kernel that writes the images; the
// others run beside it. What they alone work in is one buffer for both slots, as the placing stream
// takes one run after the other.
class CudaPicturePipeline final : public PicturePipeline {
 public:
  CudaPicturePipeline(Context& context, Allocator& allocator);
  ~CudaPicturePipeline() override;

  void run(const PictureBatch& batch, std::shared_ptr<const void> keeper,
           const Tensor& images) override;

 private:
  /// Device memory that grows and never shrinks.
  struct Room {
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
  };
  struct Slot {
    Room bytes;
    Room placed;                                 // PictureLaunch::placed, then its means
    kernels::PlannedPicture* planned = nullptr;  // pinned
    kernels::PlannedPicture* device_planned = nullptr;
    int64_t capacity = 0;  // planned pictures
    Event copied;
    Event placed_there;
    Event used;
    std::shared_ptr<const void> keeper;
  };
  bool grow(Room& room, int64_t bytes);
  bool grow_planned(Slot& slot, int64_t pictures);
  void free(Room& room);
  void free_planned(Slot& slot);
  void keep_copies(const PictureBatch& batch, const Slot& slot) const;

  Context& context_;
  Allocator& allocator_;
  cudaStream_t placing_ = nullptr;
  std::array<Slot, 2> slots_;
  Room work_;  // PictureLaunch::weights, then `between`
  Event allocated_;
  size_t next_ = 0;
};

}  // namespace whisker::cuda
