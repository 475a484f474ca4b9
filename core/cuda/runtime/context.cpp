// Streams and handles of one GPU.
#include "core/cuda/runtime/context.h"

#include "core/cuda/runtime/add_time.h"
#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/cublas_lt.h"
#include "core/cuda/runtime/libraries.h"
#include "core/error.h"
#include "core/nvidia/cuda_library.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string_view>

namespace whisker::cuda {
namespace {

constinit thread_local int current_device = -1;

constexpr const char* source_names[fault_sources] = {"cross_entropy", "gather", "embedding",
                                                     "one_hot"};

}  // namespace

Context::Context(int device) : device_(device) {
  const AddTime timer(start_times_.context);
  enter();
  check(cudaGetDeviceProperties(&properties_, device), "reading the GPU's properties");
  // Its kernels, also in captured steps, have priority over those that resample the next batch, but
  // not over the few of nvJPEG, for which a thread waits.
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
  check(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, std::max(least - 1, greatest)),
      "making the compute stream");
  check(cudaStreamCreateWithFlags(&copy_stream_, cudaStreamNonBlocking), "making the copy stream");
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, fault_sources * sizeof *faults_, cudaHostAllocMapped),
        "allocating the notes of faults");
  faults_ = new (memory) Fault[fault_sources];
  check(cudaHostGetDevicePointer(&memory, faults_, 0), "mapping the notes of faults");
  faults_on_device_ = static_cast<Fault*>(memory);
  check(cudaMalloc(&memory, ticket_count * sizeof *tickets_), "allocating the tickets");
  tickets_ = static_cast<uint32_t*>(memory);
  check(cudaMemsetAsync(tickets_, 0, ticket_count * sizeof *tickets_, stream_),
        "clearing the tickets");
}

// The registry's contexts are never destroyed; those of tests are.
Context::~Context() {
  enter_to_free();
  if (cudnn_) cudnnDestroy(cudnn_);
  if (cublas_lt_) cuda::cublas_lt().destroy(cublas_lt_);
  cudaFree(tickets_);
  cudaFreeHost(faults_);
  if (copy_stream_) cudaStreamDestroy(copy_stream_);
  if (stream_) cudaStreamDestroy(stream_);
}

std::string Context::bus_id() const {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device_),
        "asking for the GPU's bus");
  return id.data();
}

void Context::enter() const {
  if (current_device == device_) return;
  check(cudaSetDevice(device_), "choosing the GPU");
  current_device = device_;
}

void Context::enter_to_free() const noexcept {
  if (current_device == device_) return;
  if (cudaSetDevice(device_) == cudaSuccess) current_device = device_;
}

void Context::synchronize() {
  check(cudaStreamSynchronize(stream_), "waiting for the GPU");
  for (int i = 0; i < fault_sources; ++i) {
    volatile Fault& fault = faults_[i];
    if (!fault.set) continue;
    fault.set = 0;
    const int64_t value = fault.value, row = fault.row, extent = fault.extent;
    if (static_cast<FaultSource>(i) == FaultSource::cross_entropy) {
      fail(ErrorKind::data, "cross_entropy: label {} of row {} is outside [0, {}).", value, row,
           extent);
    }
    fail(ErrorKind::usage, "{}: index {} is outside [0, {}).", source_names[i], value, extent);
  }
}

cudnnHandle_t Context::cudnn() {
  std::call_once(cudnn_made_, [&] {
    const AddTime timer(start_times_.cudnn);
    enter();
    cudnnStatus_t status = cudnnCreate(&cudnn_);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(cudnn_, stream_);
    if (status != CUDNN_STATUS_SUCCESS) {
      fail(ErrorKind::device, "starting cuDNN {}: {}.", cudnnGetVersion(),
           cudnnGetErrorString(status));
    }
  });
  return cudnn_;
}

cublasLtHandle_t Context::cublas_lt() {
  std::call_once(cublas_lt_made_, [&] {
    const AddTime timer(start_times_.cublas_lt);
    enter();
    const CublasLt& library = cuda::cublas_lt();
    const cublasStatus_t status = library.create(&cublas_lt_);
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail(ErrorKind::device, "starting cuBLASLt {}: {}.", library.get_version(),
           library.get_status_string(status));
    }
  });
  return cublas_lt_;
}

void Context::open(CudaLibrary library) {
  if (library == CudaLibrary::products) {
    cublas_lt();
    return;
  }
  cudnn();
  const AddTime timer(start_times_.cudnn);
  static constexpr std::string_view convolving[] = {"heuristic", "engines_precompiled",
                                                    "engines_runtime_compiled"};
  static constexpr std::string_view recurring[] = {"adv"};
  const std::span<const std::string_view> parts =
      library == CudaLibrary::convolutions ? std::span<const std::string_view>(convolving)
                                           : recurring;
  for (const std::string_view part : parts) open_cudnn_part(part);
}

}  // namespace whisker::cuda
