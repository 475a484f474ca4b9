// The picture pipeline of a GPU. Two slots of device memory take turns: while the kernels work on
// one batch's bytes, the copy stream fills the other slot.
#pragma once

#include "core/cuda/allocator.h"
#include "core/cuda/context.h"
#include "core/cuda/event.h"
#include "core/cuda/pictures.h"
#include "core/picture_pipeline.h"

#include <array>
#include <memory>

namespace whisker::cuda {

// Note [Slots]
// run() number k uses slot k mod 2:
//   host            waits until the copies of run k - 2 are done: its pinned memory is free then.
//                   They waited for the kernels of run k - 4, so the host is never further ahead.
//   copy stream     waits for the kernels of run k - 2, copies bytes and records, records `copied`
//   compute stream  waits for `copied`, runs the kernels, records `used`
class CudaPicturePipeline final : public PicturePipeline {
 public:
  CudaPicturePipeline(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}
  ~CudaPicturePipeline() override;

  void run(const PictureBatch& batch, std::shared_ptr<const void> keeper,
           const Tensor& images) override;

 private:
  struct Slot {
    void* bytes = nullptr;  // of the device
    int64_t byte_capacity = 0;
    kernels::PlannedPicture* planned = nullptr;  // pinned
    kernels::PlannedPicture* device_planned = nullptr;
    int64_t capacity = 0;  // planned pictures
    Event copied;
    Event used;
    std::shared_ptr<const void> keeper;
  };
  void make_room(Slot& slot, int64_t bytes, int64_t pictures);
  void free(Slot& slot);

  Context& context_;
  Allocator& allocator_;
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
};

}  // namespace whisker::cuda
