// The texts of CUDA's errors.
#include "core/cuda/runtime/check.h"

#include "core/error.h"
#include "core/memory/host_memory.h"
#include "core/memory/memory.h"
#include "core/tensor/dtype.h"

namespace whisker::cuda {
namespace {

/// Errors that return from every call until the process ends. Source: the CUDA Runtime API's
/// description of each ("the process must be terminated and relaunched").
bool loses_the_device(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

/// The driver lacks memory for something other than the allocator: graphs, loaded kernels, handles;
/// pinned host memory. The capacity is all of the GPU, since other holders are unknown here.
[[noreturn]] void fail_memory(const char* what) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const auto mebibytes = [](auto bytes) { return static_cast<double>(bytes) / (1 << 20); };
  throw OutOfMemory(fmt::format("{}: out of memory: {:.1f} of {:.1f} MiB free on the GPU, {:.1f} "
                                "on the host. {}",
                                what, mebibytes(free), mebibytes(total),
                                mebibytes(system_memory().available), memory_remedy),
                    static_cast<int64_t>(total));
}

}  // namespace

void fail_cuda(cudaError_t error, const char* what) {
  cudaGetLastError();  // clears the error if it can be cleared
  if (error == cudaErrorMemoryAllocation) fail_memory(what);
  fail(ErrorKind::device, "{}: {} ({}).{}", what, cudaGetErrorString(error),
       cudaGetErrorName(error),
       loses_the_device(error)
           ? " The device is lost to this process: start it again, with --resume if it trained."
           : "");
}

bool is_lost(cudaStream_t stream) {
  return loses_the_device(cudaStreamQuery(stream));
}

void fail_dtype(DType dtype) {
  fail(ErrorKind::usage,
       "cuda: expected a dtype that the GPU's kernels compute in (f32, bf16, f16; integers where "
       "they make sense), got {}. Convert with to(), or compute on the reference device.",
       dtype);
}

}  // namespace whisker::cuda
