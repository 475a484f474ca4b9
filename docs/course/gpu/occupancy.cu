// How many warps a multiprocessor holds, what that is good for, and what "GPU utilisation" measures
// instead.
#include "warmup.h"

namespace {

double read_plain(const float* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

double read_threads(const float* x, size_t n, int threads) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(threads)
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

#ifdef __CUDACC__
constexpr unsigned threads_of_block = 128;

// Each thread has `loads` reads under way. Dynamic shared memory is reserved and not used: it
// limits how many blocks a multiprocessor holds.
template <int loads>
__global__ void read_kernel(const float* x, float* sums, size_t n) {
  const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum = 0;
  size_t i = thread;
#pragma unroll 1
  for (; i + (loads - 1) * threads < n; i += loads * threads) {
    float values[loads];
#pragma unroll
    for (int k = 0; k < loads; ++k) values[k] = x[i + k * threads];
#pragma unroll
    for (int k = 0; k < loads; ++k) sum += values[k];
  }
  for (; i < n; i += threads) sum += x[i];
  sums[thread] = sum;
}

__global__ void wait_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

// GB/s and the share of the warps that a multiprocessor could hold, with this much shared memory a
// block.
template <int loads>
double read_speed(const warmup::Program& program, const float* x, size_t n, double expected,
                  int shared_bytes, int& blocks, bool& right) {
  warmup::check(cudaFuncSetAttribute(read_kernel<loads>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  warmup::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, read_kernel<loads>, threads_of_block, static_cast<size_t>(shared_bytes)));
  const auto grid = static_cast<unsigned>(blocks * program.gpu().multiProcessorCount);
  const warmup::DeviceArray<float> sums(size_t{grid} * threads_of_block);
  const double ms = warmup::gpu_time_ms([&] {
    read_kernel<loads><<<grid, threads_of_block, static_cast<size_t>(shared_bytes)>>>(x, sums, n);
  });
  std::vector<float> of_threads(size_t{grid} * threads_of_block);
  sums.copy_to(of_threads);
  double sum = 0;
  for (const float of_thread : of_threads) sum += static_cast<double>(of_thread);
  right = right && sum == expected;
  return sizeof(float) * static_cast<double>(n) / ms / 1e6;
}

// What nvidia-smi says while one thread of one multiprocessor does nothing for some seconds.
void print_utilisation(const warmup::Program& program) {
  int kilohertz = 0;
  warmup::check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0));
  wait_kernel<<<1, 1>>>(4000LL * kilohertz);
  char line[64] = "";
  FILE* const pipe = popen(
      "sleep 2; nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader 2>/dev/null", "r");
  if (pipe == nullptr || std::fgets(line, sizeof line, pipe) == nullptr)
    std::snprintf(line, sizeof line, "unknown");
  if (pipe != nullptr) pclose(pipe);
  warmup::check(cudaDeviceSynchronize());
  line[std::strcspn(line, "\n")] = 0;
  std::printf("\nOne thread of %d that fit runs: nvidia-smi says a utilisation of %s.\n",
              program.gpu().multiProcessorCount * program.gpu().maxThreadsPerMultiProcessor, line);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Occupancy and utilisation", argc, argv);
  const size_t n = program.size(size_t{1} << 27, size_t{1} << 20, sizeof(float));
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 3);
  const double gigabytes = sizeof(float) * static_cast<double>(n) / 1e9,
               right = read_plain(x.data(), n);
  program.table({"CPU", "GB/s", "result"});
  double sum = 0;
  double ms = warmup::time_ms([&] { sum = read_plain(x.data(), n); });
  program.row("plain loop", {gigabytes / ms * 1e3}, sum == right);
  for (int threads = 2; threads <= std::max(2, program.threads()); threads *= 2) {
    ms = warmup::time_ms([&] { sum = read_threads(x.data(), n, threads); });
    program.row(std::to_string(threads) + " threads", {gigabytes / ms * 1e3}, sum == right);
  }
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<float> on_x(x);
    const int limit = static_cast<int>(program.gpu().sharedMemPerBlockOptin);
    const int of_processor = static_cast<int>(program.gpu().sharedMemPerMultiprocessor);
    std::printf("\nGB/s that the GPU reads.\n\n");
    program.table({"warps of a multiprocessor", "occupancy, %", "1 load a thread", "4 loads",
                   "16 loads", "result"});
    int last = 0;
    for (const int wanted : {1, 2, 4, 8, 16}) {
      int blocks = 0;
      // 1 KiB of each block is the system's.
      const int bytes = wanted == 16 ? 0 : std::min(limit, of_processor / wanted - 1024);
      bool all_right = true;
      const double one = read_speed<1>(program, on_x, n, right, bytes, blocks, all_right);
      if (blocks == last) continue;
      last = blocks;
      const int warps = blocks * static_cast<int>(threads_of_block) / 32;
      const double occupancy = 100.0 * warps * 32 / program.gpu().maxThreadsPerMultiProcessor;
      const double four = read_speed<4>(program, on_x, n, right, bytes, blocks, all_right);
      const double sixteen = read_speed<16>(program, on_x, n, right, bytes, blocks, all_right);
      program.row(std::to_string(warps), {occupancy, one, four, sixteen}, all_right);
    }
    if (!program.small()) print_utilisation(program);
  }
#endif
  return program.finish();
}
