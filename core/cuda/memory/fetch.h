// Small uploads without a copy engine.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// Up to here a kernel brings memory to the device as fast as a copy engine does.
inline constexpr int64_t most_fetched = int64_t{64} << 10;

/// Copies pinned host memory (`pinned` 16-byte aligned) to the device, in the stream's order. A
/// copy engine would do it after whatever other streams have asked it for before: a step would wait
/// for the pictures of a later one.
void fetch(cudaStream_t stream, const void* pinned, void* device, int64_t bytes);

}  // namespace whisker::cuda
