// The one C function by which a program enters the library: see core/cuda_library.h.
#include "core/cuda/cuda_backend.h"

namespace whisker::cuda {
namespace {

std::unique_ptr<Backend> make(int index) {
  return std::make_unique<CudaBackend>(index);
}
CudaOptions options(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).options();
}
void set_options(Backend& backend, const CudaOptions& options) {
  static_cast<CudaBackend&>(backend).set_options(options);
}

CudaGpu gpu(const Backend& backend) {
  const Context& context = static_cast<const CudaBackend&>(backend).context();
  return {.name = context.properties().name, .capability = context.capability()};
}

CudaStartTimes start_times(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).context().start_times();
}
void open(Backend& backend, CudaLibrary library) {
  static_cast<CudaBackend&>(backend).context().open(library);
}

constexpr CudaInterface offered{.version = WHISKER_VERSION,
                                .make_backend = make,
                                .options = options,
                                .set_options = set_options,
                                .gpu = gpu,
                                .start_times = start_times,
                                .open = open};

}  // namespace
}  // namespace whisker::cuda

extern "C" const whisker::CudaInterface* whisker_cuda_interface() {
  return &whisker::cuda::offered;
}
