// A multiply-add that waits for the one before it, against multiply-adds that wait for nothing: x =
// a x + b in one chain or in several side by side.
#include "warmup.h"

#include <cmath>

namespace {

constexpr float a = 0.999f, b = 0.001f;  // x goes to 1

template <int chains>
float run_plain(size_t steps) {
  float x[chains] = {};
  for (size_t step = 0; step < steps; ++step) {
    for (int c = 0; c < chains; ++c) x[c] = a * x[c] + b;
  }
  float sum = 0;
  for (int c = 0; c < chains; ++c) sum += x[c];
  return sum / chains;
}

template <int chains>
float run_threads(size_t steps) {
  float sum = 0;
  const int threads = omp_get_max_threads();
#pragma omp parallel for reduction(+ : sum)
  for (int thread = 0; thread < threads; ++thread) sum += run_plain<chains>(steps);
  return sum / static_cast<float>(threads);
}

#ifdef __CUDACC__
// One block: its warps share one multiprocessor.
template <int chains>
__global__ void run_kernel(int steps, float* result, long long* cycles) {
  float x[chains] = {};
  __syncthreads();
  const long long start = clock64();
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int c = 0; c < chains; ++c) x[c] = a * x[c] + b;
  }
  __syncthreads();
  const long long end = clock64();
  float sum = 0;
  for (int c = 0; c < chains; ++c) sum += x[c];
  result[threadIdx.x] = sum / chains;
  if (threadIdx.x == 0) *cycles = end - start;
}

// Multiply-adds of the multiprocessor in a clock cycle.
template <int chains>
double per_cycle(int warps, bool& right) {
  constexpr int steps = 20'000;
  const unsigned threads = static_cast<unsigned>(warps) * 32;
  warmup::DeviceArray<float> result(threads);
  warmup::DeviceArray<long long> cycles(1);
  for (int run = 0; run < 2; ++run) run_kernel<chains><<<1, threads>>>(steps, result, cycles);
  std::vector<float> x(threads);
  std::vector<long long> count(1);
  result.copy_to(x);
  cycles.copy_to(count);
  for (const float value : x) right = right && std::abs(value - 1) < 1e-3f;
  return static_cast<double>(chains) * steps * threads / static_cast<double>(count[0]);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("A serial chain against independent work", argc, argv);
  const size_t steps = program.small() ? 100'000 : 20'000'000;
  std::printf("Multiply-adds in a nanosecond.\n\n");
  program.table({"chains", "plain loop", "threads", "result"});
  const auto row = [&](const char* chains, double count, auto plain, auto threads) {
    float x = 0, y = 0;
    const double plain_ms = warmup::time_ms([&] { x = plain(steps); });
    const double threads_ms = warmup::time_ms([&] { y = threads(steps); });
    const double done = count * static_cast<double>(steps) / 1e6;
    program.row(chains, {done / plain_ms, done * program.threads() / threads_ms},
                std::abs(x - 1) < 1e-3f && std::abs(y - 1) < 1e-3f);
  };
  row("1", 1, run_plain<1>, run_threads<1>);
  row("2", 2, run_plain<2>, run_threads<2>);
  row("4", 4, run_plain<4>, run_threads<4>);
  row("8", 8, run_plain<8>, run_threads<8>);
  row("32", 32, run_plain<32>, run_threads<32>);
#ifdef __CUDACC__
  if (program.has_gpu()) {
    std::printf("\nMultiply-adds of one multiprocessor in a clock cycle.\n\n");
    program.table({"warps", "1 chain", "2 chains", "4 chains", "8 chains", "result"});
    for (const int warps : {1, 2, 4, 8, 16, 32}) {
      bool right = true;
      const double one = per_cycle<1>(warps, right), two = per_cycle<2>(warps, right);
      const double four = per_cycle<4>(warps, right), eight = per_cycle<8>(warps, right);
      program.row(std::to_string(warps), {one, two, four, eight}, right);
    }
  }
#endif
  return program.finish();
}
