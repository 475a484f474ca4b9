// A second stream for work that is independent of what the compute stream does next: in a captured
// graph the two become branches, and a kernel that leaves multiprocessors idle shares them.
#pragma once

#include "core/cuda/context.h"
#include "core/cuda/event.h"

namespace whisker::cuda {

class SideStream {
 public:
  explicit SideStream(Context& context);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Enqueues aside(stream) here and beside() on the compute stream. Both come after all that was
  /// there before; what is enqueued there later comes after both. For captures only, of which an
  /// exception throws away everything: it leaves the branch without its end.
  template <class Aside, class Beside>
  void run(Aside&& aside, Beside&& beside) {
    begun_.record(context_.stream());
    begun_.make_wait(stream_);
    context_.set_cudnn_stream(stream_);
    try {
      aside(stream_);
    } catch (...) {
      context_.set_cudnn_stream(context_.stream());
      throw;
    }
    context_.set_cudnn_stream(context_.stream());
    beside();
    ended_.record(stream_);
    ended_.make_wait(context_.stream());
  }

 private:
  Context& context_;
  cudaStream_t stream_ = nullptr;
  Event begun_, ended_;
};

}  // namespace whisker::cuda
