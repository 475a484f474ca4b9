// Streams: whether a capture records them, and events to wait for.
#pragma once

#include "core/cuda/runtime/check.h"

namespace whisker::cuda {

/// True while the stream's work is recorded into a graph: nothing may be timed or waited for then.
inline bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a capture runs");
  return status != cudaStreamCaptureStatusNone;
}

/// A point in a stream that another stream, or the host, can wait for.
/// Waiting for an event that was never recorded returns at once. The host sleeps while it waits:
/// its cores belong to the threads that decode.
class Event {
 public:
  Event() {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
          "making an event");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
  void make_wait(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
  }
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the GPU"); }
  bool reached() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "asking for an event");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An event with a time, which a replay of a captured record() sets again.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "making an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(cudaStream_t stream) {
    const unsigned flags = capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(event_, stream, flags), "recording an event");
  }
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the GPU"); }
  /// An error unless the GPU has passed both.
  cudaError_t time_since(const TimedEvent& earlier, float& milliseconds) const {
    return cudaEventElapsedTime(&milliseconds, earlier.event_, event_);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace whisker::cuda
