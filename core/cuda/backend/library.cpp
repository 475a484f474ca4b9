// The C functions by which a program enters the library: see core/nvidia/cuda_library.h, and for
// the second, which needs no GPU, core/nvidia/cuda_usable.h.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/libraries.h"

namespace whisker::cuda {
namespace {

std::unique_ptr<Backend> make(int index) {
  check_cudnn_version();
  try {
    return std::make_unique<CudaBackend>(index);
  } catch (const Error& error) {
    fail(error.kind(), "{} See nvidia-smi, or use device=cpu.", error.what());
  }
}
CudaOptions options(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).options();
}
void set_options(Backend& backend, const CudaOptions& options) {
  static_cast<CudaBackend&>(backend).set_options(options);
}

CudaGpu gpu(const Backend& backend) {
  const Context& context = static_cast<const CudaBackend&>(backend).context();
  return {.name = context.properties().name,
          .capability = context.capability(),
          .bus_id = context.bus_id()};
}

CudaStartTimes start_times(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).context().start_times();
}
void open(Backend& backend, CudaLibrary library) {
  static_cast<CudaBackend&>(backend).context().open(library);
}
void* stream(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend).context().stream();
}

std::unique_ptr<SideStream> side_stream(Backend& backend) {
  return static_cast<CudaBackend&>(backend).make_side_stream();
}

constexpr CudaInterface offered{.version = WHISKER_VERSION,
                                .contract = WHISKER_CONTRACT,
                                .make_backend = make,
                                .options = options,
                                .set_options = set_options,
                                .gpu = gpu,
                                .start_times = start_times,
                                .open = open,
                                .stream = stream,
                                .make_side_stream = side_stream};

}  // namespace
}  // namespace whisker::cuda

extern "C" const whisker::CudaInterface* whisker_cuda_interface() {
  return &whisker::cuda::offered;
}

extern "C" void whisker_cuda_libraries(std::vector<whisker::BackendProperty>* libraries) {
  const auto versions = whisker::cuda::library_versions();
  libraries->insert(libraries->end(), versions.begin(), versions.end());
}
