// Gemms by cuBLASLt and by a direct kernel, described in row-major terms.
//
// Note [Row-major gemms]
// cuBLASLt's matrices are column-major, and a row-major (r,c) matrix in memory is a column-major
// (c,r) one. So y (m,n) = op(a) op(b) is computed as its transpose, y' (n,m) = op(b)' op(a)': b is
// cuBLASLt's A and a is its B, each with the row length as leading dimension and the same
// transposition flag. cuBLASLt's rows of D (a bias) are our columns n; its columns are our rows m.
#pragma once

#include "core/cuda/autotune/algorithm.h"
#include "core/tensor/dtype_name.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cublasLt.h>

namespace whisker::cuda {

/// y[i] (m,n) = op(a[i]) op(b[i]) for each i of `batch`; a is stored (k,m) where transposed, else
/// (m,k); b (n,k) where transposed, else (k,n). Strides between matrices are in elements, 0 repeats
/// one matrix; those of y are contiguous.
struct GemmRequest {
  DType dtype = DType::f32;
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_stride = 0, b_stride = 0;
  bool bias = false;       ///< y += bias (n) in every row
  bool relu = false;       ///< behind the bias
  bool row_sums = false;   ///< alone: bias (m) = sums of op(a) (m,k) over k, beside y
  bool tf32 = false;       ///< f32 operands may be rounded to tf32
  uint8_t alignment = 16;  ///< of all pointers in bytes, 16 at most
  bool operator==(const GemmRequest&) const = default;

  /// Text that identifies the request: the key of the autotune table.
  std::string describe() const;
  size_t hash() const;
};

struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  void* bias = nullptr;  ///< where the request has a bias or row_sums
};

using GemmAlgorithm = Algorithm<GemmOperands>;

/// A gemm described to cuBLASLt, without an algorithm yet.
class CublasLtGemm : public std::enable_shared_from_this<CublasLtGemm> {
 public:
  CublasLtGemm(cublasLtHandle_t handle, const GemmRequest& request);
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  /// At most `most` algorithms, the likely fastest first, with f32 sums in a fixed order. Empty
  /// when cuBLASLt does not support the gemm. Their names are hexadecimal and valid for one version
  /// of the library.
  std::vector<std::shared_ptr<GemmAlgorithm>> algorithms(const GemmOperands& operands, int most);
  /// The algorithm of that name; null where cuBLASLt does not accept it for this gemm.
  std::shared_ptr<GemmAlgorithm> named(const std::string& name, const GemmOperands& operands);

 private:
  /// The algorithm of this gemm; its name is cublasLtMatmulAlgo_t in hexadecimal digits.
  std::shared_ptr<GemmAlgorithm> made(const cublasLtMatmulAlgo_t& algorithm,
                                      size_t workspace_bytes);
  void point_at_bias(void* bias) const;

  cublasLtHandle_t handle_;
  GemmRequest request_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, y_ = nullptr;
};

/// Without cuBLASLt: one thread per element of y, f32 sums in order; any epilogue but row sums.
void direct_gemm(const GemmRequest& request, const GemmOperands& operands, cudaStream_t stream);

}  // namespace whisker::cuda
