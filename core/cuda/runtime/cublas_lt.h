// cuBLASLt, opened by the first gemm: loading its half a gigabyte takes a while.
#pragma once

#include "core/cuda/runtime/libraries.h"

#include <cublasLt.h>

namespace whisker::cuda {

/// The functions in use, named without "cublasLt".
struct CublasLt {
  decltype(&cublasLtGetVersion) get_version = find("cublasLtGetVersion");
  decltype(&cublasLtCreate) create = find("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = find("cublasLtDestroy");
  decltype(&cublasLtGetStatusString) get_status_string = find("cublasLtGetStatusString");
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create = find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy =
      find("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set_attribute =
      find("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create =
      find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy =
      find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute =
      find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create = find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy = find("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute =
      find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic =
      find("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulAlgoCheck) matmul_algo_check = find("cublasLtMatmulAlgoCheck");
  decltype(&cublasLtMatmul) matmul = find("cublasLtMatmul");

  /// Opens the library at the first call. Throws device, with the loader's message, when that
  /// fails.
  static FoundFunction find(const char* symbol);
};

/// Throws as find() does.
const CublasLt& cublas_lt();

}  // namespace whisker::cuda
