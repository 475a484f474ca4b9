// C = A B^T in levels, each in a file of its own in matrix_product/, beside cuBLAS.
#include "warmup.h"

#include <cmath>

#ifdef __CUDACC__
#include "matrix_product/1_naive.cuh"
#include "matrix_product/2_tiled.cuh"
#include "matrix_product/3_vectorised.cuh"
#include "matrix_product/4_tensor_cores.cuh"
#include "matrix_product/5_async_copies.cuh"
#include "matrix_product/6_hopper.cuh"

#include <cublas_v2.h>
#endif

namespace {

// Eighths between -1 and 1: bf16 holds them, and f32 their sums.
std::vector<float> eighths(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(seed >> 24) % 17 - 8) / 8;
  }
  return values;
}

double element(const std::vector<float>& a, const std::vector<float>& b, size_t row, size_t column,
               size_t k) {
  double sum = 0;
  for (size_t i = 0; i < k; ++i)
    sum += static_cast<double>(a[row * k + i]) * static_cast<double>(b[column * k + i]);
  return sum;
}

// 1000 elements; relative to 1 and to the element.
bool is_right(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c,
              size_t n, double tolerance) {
  uint32_t seed = 1;
  for (int i = 0; i < 1000; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const size_t row = seed / 65536 % n, column = seed % 65536 * 7 % n;
    const double right = element(a, b, row, column, n),
                 got = static_cast<double>(c[row * n + column]);
    if (!(std::abs(got - right) <= tolerance * std::max(1.0, std::abs(right)))) return false;
  }
  return true;
}

void matmul_plain(const float* a, const float* b, float* c, size_t n) {
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (size_t i = 0; i < n; ++i) sum += a[row * n + i] * b[column * n + i];
      c[row * n + column] = sum;
    }
  }
}

// Each thread its rows. Eight sums for each element wait for nothing but themselves, and fill a
// vector register.
void matmul_threads(const float* a, const float* b, float* c, size_t n) {
#pragma omp parallel for
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      float sums[8] = {};
      for (size_t i = 0; i < n; i += 8) {
        for (size_t j = 0; j < 8; ++j) sums[j] += a[row * n + i + j] * b[column * n + i + j];
      }
      c[row * n + column] =
          ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
  }
}

#ifdef __CUDACC__
// Whether the program has code for compute capability 9.0a, and this GPU runs it.
__global__ void find_wgmma(int* found) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  *found = 1;
#else
  *found = 0;
#endif
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::printf("cuBLAS: %s\n", cublasGetStatusString(status));
  std::exit(1);
}

// cuBLAS counts columns first: it computes C^T = B A^T.
void cublas_matmul(cublasHandle_t handle, const void* a, const void* b, void* c, int n,
                   cudaDataType_t type) {
  const float one = 1, zero = 0;
  check(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, b, type, n, a, type, n, &zero,
                     c, type, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void run_levels(warmup::Program& program, int n) {
  const size_t count = static_cast<size_t>(n) * static_cast<size_t>(n);
  const std::vector<float> a = eighths(count, 1), b = eighths(count, 2);
  const std::vector<__nv_bfloat16> a16(a.begin(), a.end()), b16(b.begin(), b.end());
  std::vector<float> c(count);
  std::vector<__nv_bfloat16> c16(count);
  const warmup::DeviceArray<float> on_a(a), on_b(b);
  warmup::DeviceArray<float> on_c(count);
  const warmup::DeviceArray<__nv_bfloat16> on_a16(a16), on_b16(b16);
  warmup::DeviceArray<__nv_bfloat16> on_c16(count);
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle));
  const double flops = 2.0 * n * n * n;
  const auto time_f32 = [&](auto run) {
    on_c.clear();
    const double ms = warmup::gpu_time_ms(run);
    on_c.copy_to(c);
    return ms;
  };
  const auto time_bf16 = [&](auto run) {
    on_c16.clear();
    const double ms = warmup::gpu_time_ms(run);
    on_c16.copy_to(c16);
    for (size_t i = 0; i < count; ++i) c[i] = __bfloat162float(c16[i]);
    return ms;
  };
  const auto row = [&](const char* what, double ms, double cublas_ms, double tolerance) {
    program.row(what, {ms, flops / ms / 1e9, 100 * cublas_ms / ms},
                is_right(a, b, c, static_cast<size_t>(n), tolerance));
  };

  std::printf("\n%d x %d x %d on the GPU, in f32.\n\n", n, n, n);
  program.table({"level", "ms", "TFLOP/s", "% of cuBLAS", "result"});
  const double cublas_f32 =
      time_f32([&] { cublas_matmul(handle, on_a, on_b, on_c, n, CUDA_R_32F); });
  const std::vector<float> of_cublas = c;
  row("1, naive", time_f32([&] { level1::run(on_a, on_b, on_c, n, n, n); }), cublas_f32, 1e-5);
  row("2, tiled", time_f32([&] { level2::run(on_a, on_b, on_c, n, n, n); }), cublas_f32, 1e-5);
  row("3, vectorised", time_f32([&] { level3::run(on_a, on_b, on_c, n, n, n); }), cublas_f32, 1e-5);
  c = of_cublas;
  row("cuBLAS", cublas_f32, cublas_f32, 1e-5);

  std::printf("\nIn bf16, added in f32.\n\n");
  program.table({"level", "ms", "TFLOP/s", "% of cuBLAS", "result"});
  constexpr double rounding = 1.0 / 256;
  const double cublas_bf16 =
      time_bf16([&] { cublas_matmul(handle, on_a16, on_b16, on_c16, n, CUDA_R_16BF); });
  const std::vector<float> of_cublas16 = c;
  row("4, tensor cores", time_bf16([&] { level4::run(on_a16, on_b16, on_c16, n, n, n); }),
      cublas_bf16, rounding);
  row("5, asynchronous copies", time_bf16([&] { level5::run(on_a16, on_b16, on_c16, n, n, n); }),
      cublas_bf16, rounding);
  const warmup::DeviceArray<int> found(1);
  std::vector<int> has_wgmma(1);
  find_wgmma<<<1, 1>>>(found);
  found.copy_to(has_wgmma);
  if (has_wgmma[0]) {
    row("6, TMA and wgmma", time_bf16([&] { level6::run(on_a16, on_b16, on_c16, n, n, n); }),
        cublas_bf16, rounding);
  }
  c = of_cublas16;
  row("cuBLAS", cublas_bf16, cublas_bf16, rounding);
  if (!has_wgmma[0])
    std::printf("\nLevel 6 is left out: it needs compute capability 9.0, compiled for 90a.\n");
  check(cublasDestroy(handle));
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Matrix product", argc, argv);
  const size_t n = program.small() ? 128 : 768;
  std::printf("%zu x %zu x %zu on the CPU, in f32.\n\n", n, n, n);
  const std::vector<float> a = eighths(n * n, 1), b = eighths(n * n, 2);
  std::vector<float> c(n * n);
  program.table({"version", "ms", "GFLOP/s", "result"});
  const auto row = [&](const std::string& what, double ms) {
    program.row(what, {ms, 2e-6 * static_cast<double>(n * n * n) / ms}, is_right(a, b, c, n, 1e-5));
    std::fill(c.begin(), c.end(), 0.0f);
  };
  row("plain loop", warmup::time_ms([&] { matmul_plain(a.data(), b.data(), c.data(), n); }));
  row(std::to_string(program.threads()) + " threads, 8 sums side by side",
      warmup::time_ms([&] { matmul_threads(a.data(), b.data(), c.data(), n); }));
#ifdef __CUDACC__
  if (program.has_gpu()) run_levels(program, program.small() ? 512 : 4096);
#endif
  return program.finish();
}
