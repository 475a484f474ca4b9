// The texts of CUDA's errors.
#include "core/cuda/check.h"

#include "core/dtype.h"

namespace whisker::cuda {

void fail_cuda(cudaError_t error, const char* what) {
  // A sticky error returns from every call until the process ends; the others are forgotten here.
  const bool sticky = cudaGetLastError() == error && cudaPeekAtLastError() == error;
  fail(ErrorKind::device, "{}: {} ({}).{}", what, cudaGetErrorString(error),
       cudaGetErrorName(error),
       sticky ? " The device is lost to this process: start it again, with --resume if it trained."
              : "");
}

void fail_dtype(DType dtype) {
  fail(ErrorKind::usage,
       "cuda: expected a dtype that the GPU's kernels compute in (f32, bf16, f16; integers where "
       "they "
       "make sense), got {}. Convert with to(), or compute on the reference device.",
       dtype);
}

}  // namespace whisker::cuda
