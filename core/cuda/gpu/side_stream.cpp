#include "core/cuda/gpu/side_stream.h"

#include "core/cuda/gpu/check.h"

namespace whisker::cuda {

// Of the compute stream's priority, which goes before the resampling of the next batch.
SideStream::SideStream(Context& context) : context_(context) {
  context_.enter();
  int priority = 0;
  check(cudaStreamGetPriority(context_.stream(), &priority), "asking for a priority");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
        "making the side stream");
}

SideStream::~SideStream() {
  cudaStreamDestroy(stream_);  // what fails here has failed before, and there is nobody to tell
}

void SideStream::fork() {
  begun_.record(context_.stream());
  begun_.make_wait(stream_);
}

void SideStream::join() {
  ended_.record(stream_);
  ended_.make_wait(context_.stream());
}

// Fails where the error has broken the capture or lost the device; the error itself says so.
void SideStream::abandon() noexcept {
  try {
    context_.set_cudnn_stream(context_.stream());
  } catch (...) {
  }
  try {
    join();
  } catch (...) {
  }
}

}  // namespace whisker::cuda
