// Matrix products on cuBLASLt, asked for in row-major terms.
//
// Note [Row-major products]
// cuBLASLt's matrices are column-major, and a row-major (r,c) matrix in memory is a column-major
// (c,r) one. So y (m,n) = op(a) op(b) is computed as its transpose, y' (n,m) = op(b)' op(a)': b is
// cuBLASLt's A and a is its B, each with the row length as leading dimension and with the same
// transposition flag as ours. What cuBLASLt counts along the rows of D (a bias) lies along our
// columns n, and what it counts along D's columns lies along our rows m.
#pragma once

#include "core/dtype_name.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cublasLt.h>

namespace whisker::cuda {

/// What else a product does with bias (n or m elements of the product's dtype).
enum class ProductEpilogue : uint8_t {
  none,
  relu,
  bias,       ///< y += bias (n) in every row
  bias_relu,  ///< y = relu(y + bias (n))
  row_sums,   ///< bias (m) = sums of op(a) (m,k) over k, beside y
};

/// y[i] (m,n) = op(a[i]) op(b[i]) for each i of `batch`; a is stored (k,m) where transposed, else
/// (m,k); b (n,k) where transposed, else (k,n). Strides between matrices are in elements, 0 shares
/// one; those of y lie end to end.
struct ProductRequest {
  DType dtype = DType::f32;
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_stride = 0, b_stride = 0;
  ProductEpilogue epilogue = ProductEpilogue::none;
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  /// What the pointers are multiples of, 16 at most.
  uint8_t a_alignment = 16, b_alignment = 16, y_alignment = 16, bias_alignment = 16;
  bool operator==(const ProductRequest&) const = default;

  /// The request in words, the same only for equal requests: the key of the plan table.
  std::string describe() const;
};
struct ProductRequestHash {
  size_t operator()(const ProductRequest& request) const;
};

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  void* bias = nullptr;  ///< see ProductEpilogue
};

/// One of cuBLASLt's ways to compute a product.
struct ProductAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace_bytes = 0;

  /// Hexadecimal text of the algorithm, valid for one version of the library.
  std::string text() const;
  static std::optional<cublasLtMatmulAlgo_t> parse(std::string_view text);
};

/// A product described to cuBLASLt, without an algorithm yet.
class Product {
 public:
  explicit Product(const ProductRequest& request);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// At most `most` algorithms, the likely fastest first: sums in f32 and in a fixed order. Empty
  /// when cuBLASLt cannot do it.
  std::vector<ProductAlgorithm> algorithms(cublasLtHandle_t handle, const ProductOperands& operands,
                                           int64_t workspace_limit, int most);
  /// The algorithm with its workspace, when cuBLASLt accepts it for this product.
  std::optional<ProductAlgorithm> accept(cublasLtHandle_t handle,
                                         const cublasLtMatmulAlgo_t& algorithm,
                                         const ProductOperands& operands);
  /// Enqueues the product; `workspace` has the algorithm's workspace_bytes.
  void run(cublasLtHandle_t handle, cudaStream_t stream, const ProductAlgorithm& algorithm,
           const ProductOperands& operands, void* workspace);

 private:
  void point_at_bias(void* bias);

  ProductRequest request_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, y_ = nullptr;
};

}  // namespace whisker::cuda
