// The backend's recurrent methods.
#include "core/cuda/cuda_backend.h"
#include "core/error.h"

namespace whisker::cuda {
namespace {

[[noreturn]] void refuse(const RecurrentGeometry& g) {
  fail(ErrorKind::device, "recurrent: {} runs on cpu only, not on cuda. Set device: cpu.",
       name_of(g.kind));
}

}  // namespace

int64_t CudaBackend::recurrent_reserve_bytes(const RecurrentGeometry&) {
  return 0;
}

void CudaBackend::recurrent(const RecurrentGeometry& g, const RecurrentInputs&,
                            const RecurrentOutputs&) {
  refuse(g);
}

void CudaBackend::recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs&,
                                     const RecurrentOutputs&, const RecurrentGradients&) {
  refuse(g);
}

}  // namespace whisker::cuda
