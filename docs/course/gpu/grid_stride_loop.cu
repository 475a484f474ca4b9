// y = a x + y with a grid that does not depend on n: each thread takes every (gridDim *
// blockDim)-th element.
#include "warmup.h"

namespace {

void saxpy_plain(float a, const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void saxpy_threads(float a, const float* x, float* y, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

#ifdef __CUDACC__
constexpr unsigned threads = 256;

__global__ void saxpy_one_each(float a, const float* x, float* y, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void saxpy_grid_stride(float a, const float* x, float* y, size_t n) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = a * x[i] + y[i];
  }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Grid-stride loop", argc, argv);
  const size_t n = program.size(100'000'000, 1'000'000, 2 * sizeof(float));
  std::vector<float> x(n), y(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
  // Each run adds 2 x: after `runs` runs y is 2 x runs, exactly.
  const auto is_right = [&](int runs) {
    bool all = true;
    for (size_t i = 0; i < n; ++i) all = all && y[i] == 2 * x[i] * static_cast<float>(runs);
    std::fill(y.begin(), y.end(), 0.0f);
    return all;
  };
  const double gigabytes = 3 * sizeof(float) * static_cast<double>(n) / 1e9;
  program.table({"version", "ms", "GB/s", "result"});
  const auto measured = [&](const std::string& what, double ms, int runs) {
    program.row(what, {ms, gigabytes / ms * 1e3}, is_right(runs));
  };
  measured("plain loop", warmup::time_ms([&] { saxpy_plain(2, x.data(), y.data(), n); }, 3), 3);
  measured(std::to_string(program.threads()) + " threads",
           warmup::time_ms([&] { saxpy_threads(2, x.data(), y.data(), n); }, 3), 3);
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<float> on_x(x);
    warmup::DeviceArray<float> on_y(n);
    const auto run = [&](const std::string& what, auto kernel, unsigned blocks) {
      on_y.clear();
      const double ms =
          warmup::gpu_time_ms([&] { kernel<<<blocks, threads>>>(2.0f, on_x, on_y, n); }, 9);
      on_y.copy_to(y);
      measured(what, ms, 10);
    };
    run("kernel, a thread for each element", saxpy_one_each,
        static_cast<unsigned>((n + threads - 1) / threads));
    const auto multiprocessors = static_cast<unsigned>(program.gpu().multiProcessorCount);
    for (const unsigned of_each : {1u, 2u, 4u, 8u, 16u, 32u}) {
      run("grid-stride, " + std::to_string(of_each) + " blocks a multiprocessor", saxpy_grid_stride,
          multiprocessors * of_each);
    }
    run("grid-stride, 1 block in all", saxpy_grid_stride, 1);
  }
#endif
  return program.finish();
}
