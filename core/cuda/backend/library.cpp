// The C functions by which a program enters the library: see core/nvidia/cuda_library.h, and for
// the second, which needs no GPU, core/nvidia/cuda_usable.h.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/libraries.h"

namespace whisker::cuda {
namespace {

CudaBackend& own(Backend& backend) {
  return static_cast<CudaBackend&>(backend);
}
const CudaBackend& own(const Backend& backend) {
  return static_cast<const CudaBackend&>(backend);
}

std::unique_ptr<Backend> make(int index) {
  check_cudnn_version();
  try {
    return std::make_unique<CudaBackend>(index);
  } catch (const Error& error) {
    fail(error.kind(), "{} See nvidia-smi, or use device=cpu.", error.what());
  }
}
CudaGpu gpu(const Backend& backend) {
  const Context& context = own(backend).context();
  return {.name = context.properties().name,
          .capability = context.capability(),
          .bus_id = context.bus_id()};
}

constexpr CudaInterface offered{
    .version = WHISKER_VERSION,
    .contract = WHISKER_CONTRACT,
    .make_backend = make,
    .options = [](const Backend& b) { return own(b).options(); },
    .set_options = [](Backend& b, const CudaOptions& options) { own(b).set_options(options); },
    .gpu = gpu,
    .start_times = [](const Backend& b) { return own(b).context().start_times(); },
    .open = [](Backend& b, CudaLibrary library) { own(b).context().open(library); },
    .stream = [](const Backend& b) -> void* { return own(b).context().stream(); },
    .make_side_stream = [](Backend& b) { return own(b).make_side_stream(); },
    .take_failures = [](Backend& b) { return own(b).take_failures(); }};

}  // namespace
}  // namespace whisker::cuda

extern "C" const whisker::CudaInterface* whisker_cuda_interface() {
  return &whisker::cuda::offered;
}

extern "C" void whisker_cuda_libraries(std::vector<whisker::BackendProperty>* libraries) {
  const auto versions = whisker::cuda::library_versions();
  libraries->insert(libraries->end(), versions.begin(), versions.end());
}
