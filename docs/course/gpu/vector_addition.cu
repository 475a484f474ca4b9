// The first kernel: sum[i] = a[i] + b[i], a thread for each i.
#include "warmup.h"

namespace {

void add_plain(const float* a, const float* b, float* sum, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

void add_threads(const float* a, const float* b, float* sum, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

#ifdef __CUDACC__
constexpr unsigned threads = 256;

__global__ void add_kernel(const float* a, const float* b, float* sum, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

// Whole blocks: the last one may reach over the end.
void add_gpu(const float* a, const float* b, float* sum, size_t n) {
  const auto blocks = static_cast<unsigned>((n + threads - 1) / threads);
  add_kernel<<<blocks, threads>>>(a, b, sum, n);
}
#endif

void print(const char* who, const std::vector<float>& sum) {
  std::printf("%s: [1 2 3 4 5 6] + [7 8 9 10 11 12] = [", who);
  for (size_t i = 0; i < sum.size(); ++i)
    std::printf("%s%g", i ? " " : "", static_cast<double>(sum[i]));
  std::printf("]\n");
}

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Vector addition", argc, argv);
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{7, 8, 9, 10, 11, 12},
      right{8, 10, 12, 14, 16, 18};
  std::vector<float> sum(6);
  add_plain(a.data(), b.data(), sum.data(), 6);
  print("CPU", sum);
  program.expect(sum == right, "the CPU's sum");
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<float> on_a(a), on_b(b), on_sum(6);
    add_gpu(on_a, on_b, on_sum, 6);
    on_sum.copy_to(sum);
    print("GPU", sum);
    program.expect(sum == right, "the GPU's sum");
  }
#endif
  std::printf("\n");

  const size_t n = program.size(100'000'000, 1'000'000, 3 * sizeof(float));
  std::vector<float> x(n), y(n), z(n);
  for (size_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = 0.5f;
  }
  const auto is_right = [&] {
    bool all = true;
    for (size_t i = 0; i < n; ++i) all = all && z[i] == x[i] + y[i];
    std::fill(z.begin(), z.end(), 0.0f);
    return all;
  };
  const double gigabytes = 3 * sizeof(float) * static_cast<double>(n) / 1e9;
  program.table({"version", "ms", "GB/s", "result"});
  const auto measured = [&](const std::string& what, double ms) {
    program.row(what, {ms, gigabytes / ms * 1e3}, is_right());
  };
  measured("plain loop", warmup::time_ms([&] { add_plain(x.data(), y.data(), z.data(), n); }));
  measured(std::to_string(program.threads()) + " threads",
           warmup::time_ms([&] { add_threads(x.data(), y.data(), z.data(), n); }));
#ifdef __CUDACC__
  if (program.has_gpu()) {
    warmup::DeviceArray<float> on_x(x), on_y(y), on_z(n);
    const double kernel_ms = warmup::gpu_time_ms([&] { add_gpu(on_x, on_y, on_z, n); });
    on_z.copy_to(z);
    measured("kernel", kernel_ms);
    measured("kernel with copies to the GPU and back", warmup::time_ms([&] {
               on_x.copy_from(x);
               on_y.copy_from(y);
               add_gpu(on_x, on_y, on_z, n);
               on_z.copy_to(z);
             }));
  }
#endif
  return program.finish();
}
