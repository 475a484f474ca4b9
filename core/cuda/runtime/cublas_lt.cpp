#include "core/cuda/runtime/cublas_lt.h"

#include "core/cuda/runtime/libraries.h"
#include "core/error.h"

#include <dlfcn.h>

namespace whisker::cuda {
namespace {

// Searched in this library's run path (the toolkit's folder) and the loader's. Never closed.
CublasLt open_library() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(ErrorKind::device,
         "cuBLASLt: {} cannot be opened: {}. Install that of CUDA {}, or use device=cpu.", name,
         dlerror(), CUBLAS_VER_MAJOR);
  }
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function) fail(ErrorKind::device, "cuBLASLt: {} has no {}.", name, symbol);
  };
  CublasLt lt{};
  find(lt.get_version, "cublasLtGetVersion");
  if (const size_t version = lt.get_version(); version / 10000 != CUBLAS_VER_MAJOR) {
    fail(ErrorKind::device,
         "cuBLASLt {} does not fit: that of CUDA {} is needed. It was loaded from {}: install the "
         "other, name its folder in LD_LIBRARY_PATH, or use device=cpu.",
         version_text(version), CUBLAS_VER_MAJOR, file_of(lt.get_version));
  }
  find(lt.create, "cublasLtCreate");
  find(lt.destroy, "cublasLtDestroy");
  find(lt.get_status_string, "cublasLtGetStatusString");
  find(lt.matrix_layout_create, "cublasLtMatrixLayoutCreate");
  find(lt.matrix_layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(lt.matrix_layout_set_attribute, "cublasLtMatrixLayoutSetAttribute");
  find(lt.matmul_preference_create, "cublasLtMatmulPreferenceCreate");
  find(lt.matmul_preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(lt.matmul_preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.matmul_desc_create, "cublasLtMatmulDescCreate");
  find(lt.matmul_desc_destroy, "cublasLtMatmulDescDestroy");
  find(lt.matmul_desc_set_attribute, "cublasLtMatmulDescSetAttribute");
  find(lt.matmul_algo_get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.matmul_algo_check, "cublasLtMatmulAlgoCheck");
  find(lt.matmul, "cublasLtMatmul");
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt opened = open_library();
  return opened;
}

}  // namespace whisker::cuda
