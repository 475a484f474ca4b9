// What a number keeps in 16 bits: bf16 has f32's range and 8 bits of precision, f16 11 bits and a
// small range. Then what that does to a long sum and to small gradients, and what loss scaling does
// about it.
#include "warmup.h"

#include <cmath>
#include <random>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace {

// The nearest number with `bits` of precision, ties to even; below 2^least numbers keep fewer bits,
// and above `most` is infinity.
float rounded(float x, int bits, int least, float most) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // x = f 2^exponent, f in [0.5, 1)
  const int unit = std::max(exponent, least + 1) - bits;
  const float y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(y) > most ? std::copysign(INFINITY, x) : y;
}
float to_bf16(float x) {
  return rounded(x, 8, -126, 3.3895314e38f);
}
float to_f16(float x) {
  return rounded(x, 11, -14, 65504.0f);
}

// 0.001 added n times, in a sum of that type.
template <class Round>
float sum_of_thousandths(int n, Round round) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum = round(sum + 0.001f);
  return sum;
}

// How many of the gradients become 0 in f16, in percent, when the loss is multiplied by `scale`;
// and how many infinite.
void count_losses(const std::vector<float>& gradients, float scale, double& zeros,
                  double& infinities) {
  size_t zero = 0, infinite = 0;
#pragma omp parallel for reduction(+ : zero, infinite)
  for (size_t i = 0; i < gradients.size(); ++i) {
    const float g = to_f16(gradients[i] * scale);
    zero += g == 0;
    infinite += std::isinf(g);
  }
  zeros = 100 * static_cast<double>(zero) / static_cast<double>(gradients.size());
  infinities = 100 * static_cast<double>(infinite) / static_cast<double>(gradients.size());
}

#ifdef __CUDACC__
__global__ void round_kernel(const float* x, float* bf16, float* f16, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bf16[i] = __bfloat162float(__float2bfloat16(x[i]));
  f16[i] = __half2float(__float2half(x[i]));
}

// Four elements a thread, so that 16-bit elements are read and written in large parts, too.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T v[4];
};
template <class T>
__global__ void scale_kernel(const Four<T>* x, Four<T>* y, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Four<T> four = x[i];
  for (T& v : four.v) v = static_cast<T>(static_cast<float>(v) * 0.5f);
  y[i] = four;
}
template <class T>
double scale_ms(size_t n) {
  warmup::DeviceArray<Four<T>> x(n / 4), y(n / 4);
  x.clear();
  return warmup::gpu_time_ms(
      [&] { scale_kernel<T><<<static_cast<unsigned>((n / 4 + 255) / 256), 256>>>(x, y, n / 4); });
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Mixed precision", argc, argv);
  const std::vector<float> numbers{1.0f / 3, 1.001f, 257.0f, 2049.0f, 70000.0f, 1e-5f, 1e-8f};
  std::printf("| number | in bf16 | in f16 |\n|---:|---:|---:|\n");
  for (const float x : numbers) {
    std::printf("| %.8g | %.8g | %.8g |\n", static_cast<double>(x), static_cast<double>(to_bf16(x)),
                static_cast<double>(to_f16(x)));
  }
  program.expect(to_bf16(257) == 256 && to_f16(2049) == 2048 && std::isinf(to_f16(70000)) &&
                     to_f16(1e-8f) == 0,
                 "rounding");

  std::printf("\n0.001 added 10,000 times.\n\n| type of the sum | sum |\n|---|---:|\n");
  const float in_f32 = sum_of_thousandths(10'000, [](float x) { return x; });
  const float in_bf16 = sum_of_thousandths(10'000, to_bf16),
              in_f16 = sum_of_thousandths(10'000, to_f16);
  std::printf("| f32 | %.6g |\n| f16 | %.6g |\n| bf16 | %.6g |\n", static_cast<double>(in_f32),
              static_cast<double>(in_f16), static_cast<double>(in_bf16));
  program.expect(std::abs(in_f32 - 10) < 0.01f && in_bf16 < in_f16 && in_f16 < 5, "the sums");

  const size_t n = program.small() ? 100'000 : 10'000'000;
  std::printf("\n%s gradients of which most lie between 1e-10 and 1e-4, in f16.\n\n",
              warmup::grouped(n).c_str());
  std::vector<float> gradients(n);
  std::mt19937 random(1);
  std::normal_distribution<float> exponent(-7, 1.5f);
  for (float& g : gradients) g = std::pow(10.0f, exponent(random));
  program.table({"loss multiplied by", "0 in f16, %", "infinite, %"});
  double zeros = 0, before = 100, infinities = 0;
  for (const float scale : {1.0f, 256.0f, 65536.0f, 16777216.0f, 4294967296.0f}) {
    count_losses(gradients, scale, zeros, infinities);
    program.row(warmup::grouped(static_cast<size_t>(scale)), {zeros, infinities});
    program.expect(zeros <= before, "a larger scale keeps more gradients");
    before = zeros;
  }
#ifdef __CUDACC__
  if (program.has_gpu()) {
    std::vector<float> bf16(n), f16(n);
    const warmup::DeviceArray<float> on_x(gradients), on_bf16(n), on_f16(n);
    round_kernel<<<static_cast<unsigned>((n + 255) / 256), 256>>>(on_x, on_bf16, on_f16, n);
    on_bf16.copy_to(bf16);
    on_f16.copy_to(f16);
    size_t different = 0;
    for (size_t i = 0; i < n; ++i)
      different += bf16[i] != to_bf16(gradients[i]) || f16[i] != to_f16(gradients[i]);
    std::printf("\nThe GPU rounds %s of the gradients otherwise than the CPU.\n",
                warmup::grouped(different).c_str());
    program.expect(different == 0, "the GPU's rounding");
    const size_t count = program.small() ? 1 << 20 : 100'000'000;
    std::printf("\n%s elements multiplied by 0.5, computed in f32.\n\n",
                warmup::grouped(count).c_str());
    program.table({"type in memory", "ms"});
    program.row("f32", {scale_ms<float>(count)});
    program.row("bf16", {scale_ms<__nv_bfloat16>(count)});
    program.row("f16", {scale_ms<__half>(count)});
  }
#endif
  return program.finish();
}
