// What the GPU is and which libraries compute on it.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/check.h"
#include "core/nvidia/cuda_usable.h"

namespace whisker::cuda {
namespace {

std::string gibibytes(size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

std::vector<BackendProperty> CudaBackend::properties() const {
  const cudaDeviceProp& gpu = device_.context.properties();
  size_t free = 0, total = 0;
  device_.context.enter();
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  std::vector<BackendProperty> all = {
      {"name", gpu.name},
      {"PCI bus", device_.context.bus_id()},
      {"memory", fmt::format("{}, {} free", gibibytes(total), gibibytes(free))},
      {"compute capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
      {"multiprocessors", fmt::format("{}", gpu.multiProcessorCount)},
      {"types", gpu.major >= 8 ? "f32, tf32, bf16, f16" : "f32, f16"},
  };
  const auto libraries = cuda_libraries();
  all.insert(all.end(), libraries.begin(), libraries.end());
  return all;
}

}  // namespace whisker::cuda
