// Marks in the compute stream, and a stream beside it, forked from it and joined with it by events,
// which become edges of the graph in a capture.
#include "core/cuda/runtime/streams.h"

#include "core/cuda/backend/cuda_backend.h"

#include <deque>

namespace whisker::cuda {
namespace {

class Clock final : public DeviceClock {
 public:
  explicit Clock(Context& context) : context_(context) {}

  int64_t mark() override {
    context_.enter();
    marks_.emplace_back().record(context_.stream());
    return static_cast<int64_t>(marks_.size()) - 1;
  }

  std::vector<double> read() override {
    context_.enter();
    context_.synchronize();
    std::vector<double> times;
    for (const TimedEvent& event : marks_) {
      float milliseconds = 0;
      check(event.time_since(marks_.front(), milliseconds), "reading a time");
      times.push_back(milliseconds);
    }
    return times;
  }

 private:
  Context& context_;
  std::deque<TimedEvent> marks_;
};

class Side final : public SideStream {
 public:
  explicit Side(Context& context) : context_(context) {
    // Before the compute stream's next kernel: the other ranks wait for it.
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
          "making a side stream");
  }
  ~Side() override {
    context_.enter_to_free();
    cudaStreamDestroy(stream_);
  }

  void* stream() const override { return stream_; }
  void fork() override {
    context_.enter();
    forked_.record(context_.stream());
    forked_.make_wait(stream_);
  }
  void join() override {
    context_.enter();
    joined_.record(stream_);
    reached_.record(context_.stream());
    joined_.make_wait(context_.stream());
    passed_.record(context_.stream());
  }
  double waited_seconds() const override {
    context_.enter();
    float milliseconds = 0;
    if (passed_.time_since(reached_, milliseconds) == cudaSuccess) return milliseconds / 1000.0;
    cudaGetLastError();  // it is no error here
    return 0;
  }

 private:
  Context& context_;
  cudaStream_t stream_ = nullptr;
  Event forked_, joined_;
  TimedEvent reached_, passed_;  // around the wait
};

}  // namespace

std::unique_ptr<DeviceClock> CudaBackend::make_clock() {
  return std::make_unique<Clock>(device_.context);
}

std::unique_ptr<SideStream> CudaBackend::make_side_stream() {
  device_.context.enter();  // whose events the members are
  return std::make_unique<Side>(device_.context);
}

}  // namespace whisker::cuda
