// What every part of the CUDA backend needs of one GPU: its streams, library handles, properties
// and the sticky error word. Everything is ordered on one compute stream.
#pragma once

#include <cstdint>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace whisker::cuda {

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

  /// Makes this the calling thread's device: the first line of every backend method.
  void enter() const;

  /// Kernels, library calls, memory: all of it, in order. Non-blocking: it does not wait for the
  /// legacy stream.
  cudaStream_t stream() const { return stream_; }
  /// Uploads that overlap with computing; ordered against stream() by events.
  cudaStream_t copy_stream() const { return copy_stream_; }
  void synchronize() const;

  // Made on first use, bound to stream(). Workspace comes from the allocator: see Scratch.
  cudnnHandle_t cudnn();
  cublasLtHandle_t cublas_lt();

  /// One u32 in device memory; kernels set bits of DeviceFault in it (atomicOr), nothing clears
  /// them but take_faults().
  uint32_t* error_word() const { return error_word_; }
  /// Waits, reads the error word and clears it.
  uint32_t take_faults();

 private:
  int device_;
  cudaDeviceProp properties_{};
  cudaStream_t stream_ = nullptr;
  cudaStream_t copy_stream_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  uint32_t* error_word_ = nullptr;
};

}  // namespace whisker::cuda
