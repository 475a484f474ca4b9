// The backend's construction, options and properties.
#include "core/cuda/backend/cuda_backend.h"

#include "core/cuda/backend/algorithm_choices.h"
#include "core/cuda/runtime/check.h"
#include "core/nvidia/cuda_usable.h"

namespace whisker::cuda {

CudaDevice::CudaDevice(int index)
    : context(index),
      allocator(context),
      staging(context),
      algorithms(std::make_unique<AlgorithmChoices>(context, allocator, options)) {}
CudaDevice::~CudaDevice() = default;

CudaBackend::CudaBackend(int index)
    : Backend(families_),
      device_(index),
      families_{.elementwise = make_elementwise(device_),
                .shape_index = make_shape_index(device_),
                .reduction = make_reduction(device_),
                .gemm = make_gemm(device_),
                .convolution = make_convolution(device_),
                .pooling = make_pooling(device_),
                .normalization = make_normalization(device_),
                .recurrent = make_recurrent(device_),
                .losses = make_losses(device_),
                .training_step = make_training_step(device_),
                .attention = make_attention(device_),
                .conv_pool = make_conv_pool(device_),
                .fused_conv_norm = make_fused_conv_norm(device_),
                .fused_add_norms = make_fused_add_norms(device_),
                .fused_norm_pool = make_fused_norm_pool(device_)} {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::set_options(const CudaOptions& options) {
  CudaOptions same_choices = options;
  same_choices.search_seconds = device_.options.search_seconds;
  same_choices.search_uses = device_.options.search_uses;
  const bool forget = same_choices != device_.options;
  device_.options = options;
  device_.algorithms->options_changed(device_.options, forget);
}

std::vector<BackendProperty> CudaBackend::properties() const {
  const cudaDeviceProp& gpu = device_.context.properties();
  const auto gibibytes = [](size_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  };
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
