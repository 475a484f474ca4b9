// One GPU: its streams, library handles, properties, faults and tickets. All work is ordered on one
// compute stream.
#pragma once

#include "core/cuda/runtime/fault.h"
#include "core/nvidia/cuda_start_times.h"

#include <cstdint>
#include <mutex>
#include <string>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace whisker {

enum class CudaLibrary : uint8_t;  // core/nvidia/cuda_library.h

}  // namespace whisker

namespace whisker::cuda {

/// Stream and GPU of a kernel; tests describe GPUs that are not here.
struct KernelSite {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  int capability = 0;                       ///< as Context::capability
  size_t shared_bytes = 48 * 1024;          ///< of shared memory that a block may ask for
  size_t multiprocessor_bytes = 64 * 1024;  ///< of shared memory of a multiprocessor
};

class Context {
 public:
  explicit Context(int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  const cudaDeviceProp& properties() const { return properties_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }
  /// Compute capability as one number: 90 for 9.0.
  int capability() const { return properties_.major * 10 + properties_.minor; }
  KernelSite site() const {
    return {.stream = stream_,
            .multiprocessors = multiprocessors(),
            .capability = capability(),
            .shared_bytes = properties_.sharedMemPerBlockOptin,
            .multiprocessor_bytes = properties_.sharedMemPerMultiprocessor};
  }
  /// PCI bus id: "0000:01:00.0".
  std::string bus_id() const;

  /// Makes this the calling thread's device: the first line of every kernel and backend method.
  void enter() const;
  /// enter() for destructors: ignores errors, which an earlier call has reported.
  void enter_to_free() const noexcept;

  /// The compute stream: kernels, library calls, memory. It does not wait for the legacy stream.
  cudaStream_t stream() const { return stream_; }
  /// Uploads that overlap with computing; ordered against stream() by events.
  cudaStream_t copy_stream() const { return copy_stream_; }
  /// Waits for stream(). Throws what a kernel found wrong with labels (data) or indices (usage),
  /// once.
  void synchronize();

  // Made on first use, by any thread, bound to stream(). Workspace comes from the allocator: see
  // Scratch.
  cudnnHandle_t cudnn();
  cublasLtHandle_t cublas_lt();
  /// Creates the handle and opens the parts of cuDNN that its first use would open; for an idle
  /// thread.
  void open(CudaLibrary library);

  CudaStartTimes& start_times() { return start_times_; }
  const CudaStartTimes& start_times() const { return start_times_; }

  /// Fault[fault_sources], as the device address.
  Fault* faults() const { return faults_on_device_; }
  /// Zeroed counters for is_last_block() (core/cuda/device_code/group.cuh). Only for kernels of the
  /// compute stream: concurrent kernels would share them.
  uint32_t* tickets() const { return tickets_; }
  static constexpr int ticket_count = 4096;

 private:
  int device_;
  cudaDeviceProp properties_{};
  cudaStream_t stream_ = nullptr;
  cudaStream_t copy_stream_ = nullptr;
  std::once_flag cudnn_made_, cublas_lt_made_;
  cudnnHandle_t cudnn_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  CudaStartTimes start_times_;
  Fault* faults_ = nullptr;
  Fault* faults_on_device_ = nullptr;
  uint32_t* tickets_ = nullptr;
};

}  // namespace whisker::cuda
