// The same elements, each read once, in another order: neighbouring threads read elements that lie
// `stride` apart.
#include "warmup.h"

namespace {

// The i-th element in the order in which 2^log_stride passes go over the array of 2^log_n elements,
// each 2^log_stride elements a step.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline size_t
    element(size_t i, int log_n, int log_stride) {
  const int log_pass = log_n - log_stride;
  return (i >> log_pass) + ((i & ((size_t{1} << log_pass) - 1)) << log_stride);
}

void copy_plain(const float* x, float* y, size_t n, size_t stride) {
  const size_t of_pass = n / stride;
  for (size_t pass = 0; pass < stride; ++pass) {
    for (size_t step = 0; step < of_pass; ++step)
      y[pass * of_pass + step] = x[pass + step * stride];
  }
}

void copy_threads(const float* x, float* y, size_t n, size_t stride) {
  const size_t of_pass = n / stride;
#pragma omp parallel for collapse(2)
  for (size_t pass = 0; pass < stride; ++pass) {
    for (size_t step = 0; step < of_pass; ++step)
      y[pass * of_pass + step] = x[pass + step * stride];
  }
}

#ifdef __CUDACC__
__global__ void copy_kernel(const float* x, float* y, int log_n, int log_stride) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size_t{1} << log_n) y[i] = x[element(i, log_n, log_stride)];
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Coalesced against strided access", argc, argv);
  const size_t n = program.size(size_t{1} << 26, size_t{1} << 18, 2 * sizeof(float));
  std::vector<float> x(n), y(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 65536);
  const double gigabytes = 2 * sizeof(float) * static_cast<double>(n) / 1e9, missing = 0.0 / 0.0;
  std::printf("GB/s of elements that are used.\n\n");
  program.table({"stride in elements", "plain loop", "threads", "kernel", "result"});
  int log_n = 0;
  while (size_t{1} << log_n < n) ++log_n;
  for (int log_stride = 0; log_stride <= 6; ++log_stride) {
    const size_t stride = size_t{1} << log_stride;
    bool right = true;
    const auto speed = [&](double ms) {
      for (size_t i = 0; i < n; ++i) right = right && y[i] == x[element(i, log_n, log_stride)];
      std::fill(y.begin(), y.end(), -1.0f);
      return gigabytes / ms * 1e3;
    };
    const double plain =
        speed(warmup::time_ms([&] { copy_plain(x.data(), y.data(), n, stride); }, 1));
    const double threads =
        speed(warmup::time_ms([&] { copy_threads(x.data(), y.data(), n, stride); }, 2));
    double kernel = missing;
#ifdef __CUDACC__
    if (program.has_gpu()) {
      const warmup::DeviceArray<float> on_x(x);
      warmup::DeviceArray<float> on_y(n);
      const auto blocks = static_cast<unsigned>((n + 255) / 256);
      const double ms =
          warmup::gpu_time_ms([&] { copy_kernel<<<blocks, 256>>>(on_x, on_y, log_n, log_stride); });
      on_y.copy_to(y);
      kernel = speed(ms);
    }
#endif
    program.row(std::to_string(stride), {plain, threads, kernel}, right);
  }
  return program.finish();
}
