// See Note [Row-major gemms].
#include "core/cuda/gemm/cublaslt_gemm.h"

#include "core/backend/autotuner.h"
#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/cublas_lt.h"
#include "core/error.h"

#include <charconv>

#include <fmt/ranges.h>

namespace whisker::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) fail_cuda(cudaErrorMemoryAllocation, call);
  const std::string message =
      fmt::format("cuBLASLt: {}: {}", call, cublas_lt().get_status_string(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw Unsupported(message);
  fail(ErrorKind::device, "{}", message);
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      fail(ErrorKind::internal, "cuBLASLt: no gemm in {}", name_of(dtype));
  }
}

cublasLtEpilogue_t epilogue_of(const GemmRequest& r) {
  if (r.row_sums) return CUBLASLT_EPILOGUE_BGRADB;
  if (r.bias) return r.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return r.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

/// A row-major (rows, columns) matrix.
cublasLtMatrixLayout_t layout(const GemmRequest& r, int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(
      cublas_lt().matrix_layout_create(&layout, data_type(r.dtype), static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
      "cublasLtMatrixLayoutCreate");
  if (r.batch > 1) {
    const auto count = static_cast<int32_t>(r.batch);
    check(cublas_lt().matrix_layout_set_attribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count),
          "setting the batch");
    check(cublas_lt().matrix_layout_set_attribute(
              layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
          "setting the batch's stride");
  }
  return layout;
}

}  // namespace

std::string GemmRequest::describe() const {
  std::string text = fmt::format("{} {} of ({},{}){} x ({},{}){}", whisker::name_of(dtype), batch,
                                 m, k, transpose_a ? "t" : "", k, n, transpose_b ? "t" : "");
  if (batch > 1) text += fmt::format(" strides {},{}", a_stride, b_stride);
  if (bias) text += " bias";
  if (relu) text += " relu";
  if (row_sums) text += " row sums";
  if (tf32) text += " tf32";
  if (alignment != 16) text += fmt::format(" aligned {}", alignment);
  return text;
}

size_t GemmRequest::hash() const {
  return WordHash()
      .add(batch, m, n, k, a_stride, b_stride, dtype, bias, relu, row_sums, transpose_a,
           transpose_b, alignment)
      .value();
}

std::shared_ptr<GemmAlgorithm> CublasLtGemm::made(const cublasLtMatmulAlgo_t& algorithm,
                                                  size_t workspace_bytes) {
  const auto run = [gemm = shared_from_this(), algorithm, workspace_bytes](
                       const KernelSite& site, const GemmOperands& o, void* workspace) {
    const CublasLtGemm& g = *gemm;
    g.point_at_bias(o.bias);
    constexpr float one = 1, zero = 0;
    check(cublas_lt().matmul(g.handle_, g.operation_, &one, o.b, g.b_, o.a, g.a_, &zero, o.y, g.y_,
                             o.y, g.y_, &algorithm, workspace, workspace_bytes, site.stream),
          "cublasLtMatmul");
  };
  return std::make_shared<FunctionAlgorithm<GemmOperands>>(
      fmt::format("{:016x}", fmt::join(algorithm.data, "")), run,
      static_cast<int64_t>(workspace_bytes));
}

CublasLtGemm::CublasLtGemm(cublasLtHandle_t handle, const GemmRequest& r)
    : handle_(handle), request_(r) {
  const bool tf32 = r.dtype == DType::f32 && r.tf32;
  check(cublas_lt().matmul_desc_create(
            &operation_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check(cublas_lt().matmul_desc_set_attribute(operation_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, r.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, r.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(r));
  a_ = r.transpose_a ? layout(r, r.k, r.m, r.a_stride) : layout(r, r.m, r.k, r.a_stride);
  b_ = r.transpose_b ? layout(r, r.n, r.k, r.b_stride) : layout(r, r.k, r.n, r.b_stride);
  y_ = layout(r, r.m, r.n, r.m * r.n);
}

CublasLtGemm::~CublasLtGemm() {
  for (const cublasLtMatrixLayout_t layout : {a_, b_, y_}) {
    if (layout) cublas_lt().matrix_layout_destroy(layout);
  }
  if (operation_) cublas_lt().matmul_desc_destroy(operation_);
}

void CublasLtGemm::point_at_bias(void* bias) const {
  if (!request_.bias && !request_.row_sums) return;
  check(cublas_lt().matmul_desc_set_attribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                              sizeof bias),
        "setting the bias");
}

std::vector<std::shared_ptr<GemmAlgorithm>> CublasLtGemm::algorithms(const GemmOperands& operands,
                                                                     int most) {
  constexpr uint64_t workspace_limit = 32 << 20;  // the most that its Hopper kernels ask for
  point_at_bias(operands.bias);
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublas_lt().matmul_preference_create(&raw), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, cublasStatus_t (*)(decltype(raw))>
      preference(raw, cublas_lt().matmul_preference_destroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublas_lt().matmul_preference_set_attribute(raw, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
  // Split-k sums are stored in f32 and added in order; the other schemes round them to the dtype.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto pointer :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(pointer, uint32_t{request_.alignment});
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublas_lt().matmul_algo_get_heuristic(
      handle_, operation_, b_, a_, y_, y_, raw, most, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<size_t>(count));
  std::vector<std::shared_ptr<GemmAlgorithm>> found;
  for (const auto& result : results) {
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    found.push_back(made(result.algo, result.workspaceSize));
  }
  return found;
}

std::shared_ptr<GemmAlgorithm> CublasLtGemm::named(const std::string& name,
                                                   const GemmOperands& operands) {
  cublasLtMatmulAlgo_t algorithm{};
  constexpr size_t digits = 16;
  if (name.size() != digits * std::size(algorithm.data)) return nullptr;
  const char* at = name.data();
  for (uint64_t& word : algorithm.data) {
    const auto [end, error] = std::from_chars(at, at + digits, word, 16);
    if (error != std::errc() || end != at + digits) return nullptr;
    at = end;
  }
  point_at_bias(operands.bias);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublas_lt().matmul_algo_check(handle_, operation_, b_, a_, y_, y_, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS) return nullptr;
  return made(algorithm, result.workspaceSize);
}

}  // namespace whisker::cuda
