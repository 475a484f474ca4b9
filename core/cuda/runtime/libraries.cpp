#include "core/cuda/runtime/libraries.h"

#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/cublas_lt.h"
#include "core/error.h"

#include <filesystem>

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

// The part "graph" reports the version.
size_t cudnn_version() {
  open_cudnn_part("graph");
  return cudnnGetVersion();
}

std::string cudnn_text() {
  const size_t version = cudnn_version();
  std::string text = fmt::format("{} ({})", version_text(version), file_of(&cudnnGetVersion));
  return version >= least_cudnn ? text : fmt::format("{}, {}", text, newer_cudnn);
}

// Searched in this library's run path (the toolkit's folder) and the loader's. Never closed.
void* open_cublas_lt() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(ErrorKind::device,
         "cuBLASLt: {} cannot be opened: {}. Install that of CUDA {}, or use device=cpu.", name,
         dlerror(), CUBLAS_VER_MAJOR);
  }
  return library;
}

std::string cublas_lt_text() {
  return fmt::format("{} ({})", version_text(cublas_lt().get_version()),
                     file_of(cublas_lt().get_version));
}

// NCCL is not linked: searched where a program for several GPUs would find it.
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

FoundFunction CublasLt::find(const char* symbol) {
  static void* const library = open_cublas_lt();
  const FoundFunction found{dlsym(library, symbol)};
  if (!found.address) {
    fail(ErrorKind::device, "cuBLASLt: libcublasLt.so.{} has no {}.", CUBLAS_VER_MAJOR, symbol);
  }
  return found;
}

const CublasLt& cublas_lt() {
  static const CublasLt opened = [] {
    const decltype(&cublasLtGetVersion) get_version = CublasLt::find("cublasLtGetVersion");
    if (const size_t version = get_version(); version / 10000 != CUBLAS_VER_MAJOR) {
      fail(ErrorKind::device,
           "cuBLASLt {} does not fit: that of CUDA {} is needed. It was loaded from {}: install "
           "the other, name its folder in LD_LIBRARY_PATH, or use device=cpu.",
           version_text(version), CUBLAS_VER_MAJOR, file_of(get_version));
    }
    return CublasLt{};
  }();
  return opened;
}

// Where cuDNN itself looks: beside it, so that all parts are of one version, then along the
// loader's path.
void open_cudnn_part(std::string_view part) {
  const std::string name = fmt::format("libcudnn_{}.so.{}", part, CUDNN_MAJOR);
  const std::filesystem::path whole = file_of(&cudnnGetErrorString);
  if (dlopen((whole.parent_path() / name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return;
  if (dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return;
  fail(ErrorKind::device,
       "cuDNN: {} cannot be opened: {}. It belongs beside {}: install all of cuDNN, or use "
       "device=cpu.",
       name, dlerror(), whole.string());
}

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
