// The sum of an array: each block adds its part in shared memory, then one thread adds it to the
// result. The elements are small whole numbers, so that every order of adding them gives the same
// bits.
#include "warmup.h"

namespace {

double sum_plain(const float* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

double sum_threads(const float* x, size_t n) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

#ifdef __CUDACC__
constexpr unsigned threads = 256;

// Without shared memory: every thread waits for its turn at one address.
__global__ void sum_atomics(const float* x, double* sum, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, static_cast<double>(x[i]));
}

// What each thread of a grid of a fixed size adds before the block does.
__device__ float sum_of_thread(const float* x, size_t n) {
  float sum = 0;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    sum += x[i];
  return sum;
}

// A tree whose active threads lie apart: in each step, more warps have few of them.
__global__ void sum_apart(const float* x, double* sum, size_t n) {
  __shared__ float partial[threads];
  const unsigned t = threadIdx.x;
  partial[t] = sum_of_thread(x, n);
  __syncthreads();
  for (unsigned step = 1; step < threads; step *= 2) {
    if (t % (2 * step) == 0) partial[t] += partial[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(sum, static_cast<double>(partial[0]));
}

// A tree whose active threads are neighbours: whole warps fall idle.
__global__ void sum_together(const float* x, double* sum, size_t n) {
  __shared__ float partial[threads];
  const unsigned t = threadIdx.x;
  partial[t] = sum_of_thread(x, n);
  __syncthreads();
  for (unsigned step = threads / 2; step > 0; step /= 2) {
    if (t < step) partial[t] += partial[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(sum, static_cast<double>(partial[0]));
}

// The 32 lanes of a warp exchange registers; shared memory only between the warps.
__global__ void sum_shuffles(const float* x, double* sum, size_t n) {
  __shared__ float of_warp[threads / 32];
  const unsigned t = threadIdx.x;
  float value = sum_of_thread(x, n);
  for (unsigned lanes = 16; lanes > 0; lanes /= 2)
    value += __shfl_down_sync(0xffffffff, value, lanes);
  if (t % 32 == 0) of_warp[t / 32] = value;
  __syncthreads();
  if (t != 0) return;
  for (unsigned warp = 1; warp < threads / 32; ++warp) value += of_warp[warp];
  atomicAdd(sum, static_cast<double>(value));
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Block reduction", argc, argv);
  const size_t n = program.size(100'000'000, 1'000'000, sizeof(float));
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 7) - 2.0f;
  const double right = sum_plain(x.data(), n),
               gigabytes = sizeof(float) * static_cast<double>(n) / 1e9;
  double sum = 0;
  program.table({"version", "ms", "GB/s", "result"});
  const auto measured = [&](const std::string& what, double ms) {
    program.row(what, {ms, gigabytes / ms * 1e3}, sum == right);
  };
  measured("plain loop", warmup::time_ms([&] { sum = sum_plain(x.data(), n); }));
  measured(std::to_string(program.threads()) + " threads",
           warmup::time_ms([&] { sum = sum_threads(x.data(), n); }));
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<float> on_x(x);
    warmup::DeviceArray<double> on_sum(1);
    std::vector<double> result(1);
    const auto run = [&](const char* what, auto kernel, unsigned blocks) {
      const double ms = warmup::gpu_time_ms([&] {
        on_sum.clear();
        kernel<<<blocks, threads>>>(on_x, on_sum, n);
      });
      on_sum.copy_to(result);
      sum = result[0];
      measured(what, ms);
    };
    const auto resident = static_cast<unsigned>(program.gpu().multiProcessorCount) * 8;
    run("atomicAdd of each element", sum_atomics,
        static_cast<unsigned>((n + threads - 1) / threads));
    run("tree, active threads apart", sum_apart, resident);
    run("tree, active threads together", sum_together, resident);
    run("shuffles in the warps", sum_shuffles, resident);
  }
#endif
  return program.finish();
}
