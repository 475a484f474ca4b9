// What the GPU is and which libraries compute on it.
#include "core/cuda/check.h"
#include "core/cuda/cublas_lt.h"
#include "core/cuda/cuda_backend.h"

#include <string_view>

#include <dlfcn.h>

namespace whisker::cuda {
namespace {

// "13.1.0" of 130100; CUDA itself counts 13010.
std::string version_text(size_t version, size_t major_unit) {
  const size_t minor_unit = major_unit / 100;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / minor_unit,
                     version % minor_unit);
}

// The file that holds the function, as it was loaded.
template <class Function>
std::string file_of(Function* function) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(function), &info) || !info.dli_fname) return "?";
  return info.dli_fname;
}

// NCCL is not linked: it is looked for where a program that spreads over GPUs would find it.
std::string nccl_version() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return "not installed";
  auto* const get_version = reinterpret_cast<int (*)(int*)>(
      dlsym(library, "ncclGetVersion"));  // NCCL API, "ncclResult_t"
  int version = 0;
  std::string text = "libnccl.so.2 without a version";
  if (get_version && get_version(&version) == 0) {
    text = fmt::format("{} ({})", version_text(static_cast<size_t>(version), 10000),
                       file_of(get_version));
  }
  dlclose(library);
  return text;
}

std::string gibibytes(size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

std::vector<BackendProperty> CudaBackend::properties() const {
  const cudaDeviceProp& gpu = context_.properties();
  size_t free = 0, total = 0;
  context_.enter();
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "asking for CUDA's version");
  const auto cuda = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  return {
      {"name", gpu.name},
      {"memory", fmt::format("{}, {} free", gibibytes(total), gibibytes(free))},
      {"compute capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
      {"multiprocessors", fmt::format("{}", gpu.multiProcessorCount)},
      {"types", gpu.major >= 8 ? "f32, tf32, bf16, f16" : "f32, f16"},
      {"driver", fmt::format("for CUDA up to {}", cuda(driver))},
      {"CUDA", fmt::format("{} ({})", cuda(runtime), file_of(&file_of<void>))},
      {"cuDNN",
       fmt::format("{} ({})", version_text(cudnnGetVersion(), 10000), file_of(&cudnnGetVersion))},
      {"cuBLASLt", fmt::format("{} ({})", version_text(cublas_lt().get_version(), 10000),
                               file_of(cublas_lt().get_version))},
      {"NCCL", nccl_version()},
  };
}

}  // namespace whisker::cuda
