// From which size on the GPU is faster: for one addition an element, and for 200 multiply-adds;
// with the array on the GPU already, and with the copies to it and back.
#include "warmup.h"

#include <cmath>

namespace {

#ifdef __CUDACC__
__host__ __device__
#endif
    inline float
    work(float x, int steps) {
  for (int i = 0; i < steps; ++i) x = x * 0.5f + 1.0f;
  return x;
}

void work_plain(const float* x, float* y, size_t n, int steps) {
  for (size_t i = 0; i < n; ++i) y[i] = work(x[i], steps);
}

void work_threads(const float* x, float* y, size_t n, int steps) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) y[i] = work(x[i], steps);
}

#ifdef __CUDACC__
__global__ void work_kernel(const float* x, float* y, size_t n, int steps) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = work(x[i], steps);
}
void work_gpu(const float* x, float* y, size_t n, int steps) {
  work_kernel<<<static_cast<unsigned>((n + 255) / 256), 256>>>(x, y, n, steps);
}
#endif

void compare(warmup::Program& program, const std::vector<float>& x, int steps) {
  std::printf("%d multiply-add%s an element, in microseconds.\n\n", steps, steps > 1 ? "s" : "");
  program.table({"elements", "plain loop", "threads", "kernel", "kernel and copies", "result"});
  std::vector<float> y(x.size());
  size_t wins = 0, wins_with_copies = 0;  // from there on, at all larger sizes
  for (size_t n = 1024; n <= x.size(); n *= 4) {
    const int runs = n < 1 << 20 ? 20 : 3;
    const double plain =
        1e3 * warmup::time_ms([&] { work_plain(x.data(), y.data(), n, steps); }, runs);
    const double threads =
        1e3 * warmup::time_ms([&] { work_threads(x.data(), y.data(), n, steps); }, runs);
    bool right = true;
    for (size_t i = 0; i < n; ++i) right = right && y[i] == work(x[i], steps);
    double kernel = 0.0 / 0.0, with_copies = 0.0 / 0.0;
#ifdef __CUDACC__
    if (program.has_gpu()) {
      float *host_x = nullptr, *host_y = nullptr;
      const size_t bytes = n * sizeof(float);
      warmup::check(cudaMallocHost(&host_x, bytes));
      warmup::check(cudaMallocHost(&host_y, bytes));
      std::memcpy(host_x, x.data(), bytes);
      const warmup::DeviceArray<float> on_x(n), on_y(n);
      with_copies =
          1e3 * warmup::time_ms(
                    [&] {
                      warmup::check(cudaMemcpyAsync(on_x, host_x, bytes, cudaMemcpyHostToDevice));
                      work_gpu(on_x, on_y, n, steps);
                      warmup::check(cudaMemcpyAsync(host_y, on_y, bytes, cudaMemcpyDeviceToHost));
                      warmup::check(cudaDeviceSynchronize());
                    },
                    runs);
      // The CPU waits for the kernel: what one call costs.
      kernel = 1e3 * warmup::time_ms(
                         [&] {
                           work_gpu(on_x, on_y, n, steps);
                           warmup::check(cudaDeviceSynchronize());
                         },
                         runs);
      for (size_t i = 0; i < n; ++i)
        right = right && std::abs(host_y[i] - y[i]) < 1e-5f * std::abs(y[i]);
      warmup::check(cudaFreeHost(host_x));
      warmup::check(cudaFreeHost(host_y));
      const double cpu = std::min(plain, threads);
      wins = kernel >= cpu ? 0 : wins ? wins : n;
      wins_with_copies = with_copies >= cpu ? 0 : wins_with_copies ? wins_with_copies : n;
    }
#endif
    program.row(warmup::grouped(n), {plain, threads, kernel, with_copies}, right);
  }
  if (program.has_gpu()) {
    const auto from = [](size_t n) {
      return n ? "from " + warmup::grouped(n) + " elements on" : std::string("never here");
    };
    std::printf("\nThe GPU wins without copies %s, with copies %s.\n", from(wins).c_str(),
                from(wins_with_copies).c_str());
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("The size at which the GPU wins", argc, argv);
  const size_t n = program.size(size_t{1} << 24, size_t{1} << 14, 4 * sizeof(float));
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
  compare(program, x, 1);
  compare(program, x, 200);
  return program.finish();
}
