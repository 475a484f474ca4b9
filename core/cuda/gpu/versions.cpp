#include "core/cuda/gpu/versions.h"

#include "core/cuda/gpu/check.h"
#include "core/cuda/gpu/cublas_lt.h"
#include "core/cuda/gpu/cudnn_parts.h"
#include "core/cuda/gpu/loaded_library.h"
#include "core/error.h"

#include <cudnn.h>

namespace whisker::cuda {
namespace {

static_assert(CUDNN_VERSION >= least_cudnn, "scripts/find_cuda.sh lets older headers pass");

constexpr const char* newer_cudnn = "too old: 9.14 or newer is needed";

std::string cuda_text() {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for CUDA's version");
  return fmt::format("{}.{} ({})", runtime / 1000, runtime % 1000 / 10,
                     file_of(&library_versions));  // linked into this library
}

// It is the part "graph" that knows it.
size_t cudnn_version() {
  open_cudnn_part("graph");
  return cudnnGetVersion();
}

std::string cudnn_text() {
  const size_t version = cudnn_version();
  std::string text = fmt::format("{} ({})", version_text(version), file_of(&cudnnGetVersion));
  return version >= least_cudnn ? text : fmt::format("{}, {}", text, newer_cudnn);
}

std::string cublas_lt_text() {
  return fmt::format("{} ({})", version_text(cublas_lt().get_version()),
                     file_of(cublas_lt().get_version));
}

// NCCL is not linked: it is looked for where a program that spreads over GPUs would find it.
std::string nccl_text() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return "not installed";
  auto* const get_version = reinterpret_cast<int (*)(int*)>(
      dlsym(library, "ncclGetVersion"));  // NCCL API, "ncclResult_t"
  int version = 0;
  std::string text = "libnccl.so.2 without a version";
  if (get_version && get_version(&version) == 0) {
    text = fmt::format("{} ({})", version_text(static_cast<size_t>(version)), file_of(get_version));
  }
  dlclose(library);
  return text;
}

std::string text_or_error(std::string (*text)()) {
  try {
    return text();
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void check_cudnn_version() {
  const size_t version = cudnn_version();
  if (version >= least_cudnn) return;
  fail(ErrorKind::device,
       "cuDNN {} is {}. It was loaded from {}: install a newer one, name its folder in "
       "LD_LIBRARY_PATH, or use device=cpu.",
       version_text(version), newer_cudnn, file_of(&cudnnGetVersion));
}

std::vector<BackendProperty> library_versions() {
  return {{"CUDA", cuda_text()},
          {"cuDNN", text_or_error(cudnn_text)},
          {"cuBLASLt", text_or_error(cublas_lt_text)},
          {"NCCL", nccl_text()}};
}

}  // namespace whisker::cuda
