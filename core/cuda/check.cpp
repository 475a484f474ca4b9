// The texts of CUDA's errors.
#include "core/cuda/check.h"

#include "core/dtype.h"

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

}  // namespace

void fail_cuda(cudaError_t error, const char* what) {
  cudaGetLastError();  // forgets what can be forgotten
  fail(ErrorKind::device, "{}: {} ({}).{}", what, cudaGetErrorString(error),
       cudaGetErrorName(error),
       loses_the_device(error)
           ? " The device is lost to this process: start it again, with --resume if it trained."
           : "");
}

void fail_dtype(DType dtype) {
  fail(ErrorKind::usage,
       "cuda: expected a dtype that the GPU's kernels compute in (f32, bf16, f16; integers where "
       "they make sense), got {}. Convert with to(), or compute on the reference device.",
       dtype);
}

}  // namespace whisker::cuda
