// The backend's construction, options, timed choices, properties, and what it makes of images.
#include "core/cuda/backend/cuda_backend.h"

#include "core/cuda/convolution/conv_algorithms.h"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/image/image_pipeline.h"
#include "core/cuda/image/jpeg_decoder.h"
#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/cublas_lt.h"
#include "core/error.h"
#include "core/nvidia/cuda_usable.h"

namespace whisker::cuda {
namespace {

AutotuneTable::Environment environment_of(const Context& context) {
  return {{"cudnn", static_cast<int64_t>(cudnnGetVersion())},
          {"cublas_lt", static_cast<int64_t>(cublas_lt().get_version())},
          {"kernels", own_kernels},
          {"device", std::string(context.properties().name)}};
}

// What the table holds is found there again.
void forget_choices(CudaDevice& device) {
  device.convolutions->clear();
  device.gemms->clear();
}

}  // namespace

CudaDevice::CudaDevice(int index)
    : context(index),
      allocator(context),
      staging(context),
      table({convolution_rows, gemm_rows}, [this] { return environment_of(context); }),
      gemms(std::make_unique<GemmAlgorithms>(*this, gemm_rows)),
      convolutions(std::make_unique<ConvAlgorithms>(*this, convolution_rows)) {
  budget.set_limit(options.search_seconds);
  budget.set_uses(options.search_uses);
}
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
  device_.budget.set_limit(options.search_seconds);
  device_.budget.set_uses(options.search_uses);
  if (!forget) return;
  device_.table.clear();
  forget_choices(device_);
}

std::string CudaBackend::export_algorithms() const {
  return device_.table.text();
}

void CudaBackend::import_algorithms(std::string_view text) {
  device_.context.enter();
  device_.table.add(text);
  forget_choices(device_);
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

std::unique_ptr<ImagePipeline> CudaBackend::make_image_pipeline() {
  device_.context.enter();  // here, as its events are made before the body of its constructor
  return std::make_unique<CudaImagePipeline>(device_.context, device_.allocator);
}

std::shared_ptr<JpegDecoder> CudaBackend::make_jpeg_decoder(std::string& why) {
  try {
    device_.context.enter();
    return std::make_shared<CudaJpegDecoder>(device_.context);
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace whisker::cuda
