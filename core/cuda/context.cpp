// Streams and handles of one GPU.
#include "core/cuda/context.h"

#include "core/cuda/check.h"
#include "core/error.h"

namespace whisker::cuda {
namespace {

constinit thread_local int current_device = -1;

}  // namespace

Context::Context(int device) : device_(device) {
  enter();
  check(cudaGetDeviceProperties(&properties_, device), "reading the GPU's properties");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making the compute stream");
  check(cudaStreamCreateWithFlags(&copy_stream_, cudaStreamNonBlocking), "making the copy stream");
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof *error_word_), "allocating the error word");
  error_word_ = static_cast<uint32_t*>(word);
  check(cudaMemsetAsync(error_word_, 0, sizeof *error_word_, stream_), "clearing the error word");
}

// The registry's contexts are never destroyed; those of tests are. What fails here has failed
// before, and there is nobody to tell.
Context::~Context() {
  cudaSetDevice(device_);
  if (cudnn_) cudnnDestroy(cudnn_);
  if (cublas_lt_) cublasLtDestroy(cublas_lt_);
  cudaFree(error_word_);
  if (copy_stream_) cudaStreamDestroy(copy_stream_);
  if (stream_) cudaStreamDestroy(stream_);
}

void Context::enter() const {
  if (current_device == device_) return;
  check(cudaSetDevice(device_), "choosing the GPU");
  current_device = device_;
}

void Context::synchronize() const {
  check(cudaStreamSynchronize(stream_), "waiting for the GPU");
}

cudnnHandle_t Context::cudnn() {
  if (!cudnn_) {
    enter();
    cudnnStatus_t status = cudnnCreate(&cudnn_);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(cudnn_, stream_);
    if (status != CUDNN_STATUS_SUCCESS) {
      fail(ErrorKind::device, "starting cuDNN {}: {}.", cudnnGetVersion(),
           cudnnGetErrorString(status));
    }
  }
  return cudnn_;
}

cublasLtHandle_t Context::cublas_lt() {
  if (!cublas_lt_) {
    enter();
    const cublasStatus_t status = cublasLtCreate(&cublas_lt_);
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail(ErrorKind::device, "starting cuBLASLt {}: {}.", cublasLtGetVersion(),
           cublasLtGetStatusString(status));
    }
  }
  return cublas_lt_;
}

uint32_t Context::take_faults() {
  enter();
  uint32_t faults = 0;
  check(cudaMemcpyAsync(&faults, error_word_, sizeof faults, cudaMemcpyDeviceToHost, stream_),
        "reading the error word");
  check(cudaMemsetAsync(error_word_, 0, sizeof faults, stream_), "clearing the error word");
  synchronize();
  return faults;
}

}  // namespace whisker::cuda
