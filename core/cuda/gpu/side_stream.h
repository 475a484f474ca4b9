// A second stream for work that is independent of what the compute stream does next: in a captured
// graph the two become branches, and a kernel that leaves multiprocessors idle shares them.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/cuda/gpu/event.h"

namespace whisker::cuda {

class SideStream {
 public:
  explicit SideStream(Context& context);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Enqueues aside(stream) here and beside() on the compute stream. Both come after all that was
  /// there before; what is enqueued there later comes after both. That holds for what either has
  /// enqueued before it throws, too, so that a capture can be ended and memory given back. cuDNN
  /// follows: in aside() it enqueues here.
  template <class Aside, class Beside>
  void run(Aside&& aside, Beside&& beside) {
    fork();
    try {
      context_.set_cudnn_stream(stream_);
      aside(stream_);
      context_.set_cudnn_stream(context_.stream());
      beside();
    } catch (...) {
      abandon();
      throw;
    }
    join();
  }

 private:
  void fork();
  void join();
  /// As well as it can be done after an error.
  void abandon() noexcept;

  Context& context_;
  cudaStream_t stream_ = nullptr;
  Event begun_, ended_;
};

}  // namespace whisker::cuda
