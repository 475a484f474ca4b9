// Whether work is being recorded.
#pragma once

#include "core/cuda/gpu/check.h"

namespace whisker::cuda {

/// True while the stream's work is recorded into a graph: nothing may be timed or waited for then.
inline bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a capture runs");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace whisker::cuda
