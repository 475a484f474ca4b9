// How often z = z^2 + c stays below 2, for each pixel c: written as mandelbrot.png.
#include "warmup.h"

#include <cmath>

#if __has_include(<stb/stb_image_write.h>)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb/stb_image_write.h>
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#define HAS_STB 1
#else
#define HAS_STB 0
#endif

namespace {

constexpr int most_steps = 1000;

// Pixel (column, row) of the rectangle from -2.2 - 1.2 i to 1 + 1.2 i.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline int
    steps_of(int column, int row, int width, int height) {
  const float re = -2.2f + 3.2f * static_cast<float>(column) / static_cast<float>(width);
  const float im = -1.2f + 2.4f * static_cast<float>(row) / static_cast<float>(height);
  float x = 0, y = 0;
  int steps = 0;
  while (steps < most_steps && x * x + y * y < 4) {
    const float next = x * x - y * y + re;
    y = 2 * x * y + im;
    x = next;
    ++steps;
  }
  return steps;
}

void draw_plain(int* steps, int width, int height) {
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column)
      steps[row * width + column] = steps_of(column, row, width, height);
  }
}

// Rows differ in their work: each thread takes the next one when it is free.
void draw_threads(int* steps, int width, int height) {
#pragma omp parallel for schedule(dynamic)
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column)
      steps[row * width + column] = steps_of(column, row, width, height);
  }
}

#ifdef __CUDACC__
// A warp goes on until the last of its pixels is done: 8 x 4 neighbours need about as many steps,
// 32 x 1 differ more.
__global__ void draw_kernel(int* steps, int width, int height) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (column < width && row < height)
    steps[row * width + column] = steps_of(column, row, width, height);
}
#endif

// Black inside; outside, colours by the logarithm of the steps.
bool write_png(const std::vector<int>& steps, int width, int height) {
#if HAS_STB
  std::vector<unsigned char> pixels;
  pixels.reserve(steps.size() * 3);
  for (const int n : steps) {
    const float t =
        n == most_steps ? 0 : std::log(1.0f + static_cast<float>(n)) / std::log(1.0f + most_steps);
    for (const float phase : {0.0f, 0.8f, 1.6f}) {
      const float shade = n == most_steps ? 0 : 0.5f - 0.5f * std::cos(6.3f * 1.5f * t + phase);
      pixels.push_back(static_cast<unsigned char>(255 * shade));
    }
  }
  return stbi_write_png("mandelbrot.png", width, height, 3, pixels.data(), 3 * width) != 0;
#else
  static_cast<void>(steps), static_cast<void>(width), static_cast<void>(height);
  return false;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("The Mandelbrot set", argc, argv);
  const int width = program.small() ? 160 : 1600, height = width * 3 / 4;
  std::printf("%d x %d pixels, at most %d steps.\n\n", width, height, most_steps);
  const size_t pixels = static_cast<size_t>(width) * static_cast<size_t>(height);
  std::vector<int> steps(pixels), right(pixels);
  program.table({"version", "ms", "million pixels a second", "other pixels, %", "result"});
  // The GPU fuses multiplications and additions, which rounds otherwise: near the edge pixels
  // differ.
  const auto measured = [&](const std::string& what, double ms) {
    size_t different = 0;
    for (size_t i = 0; i < pixels; ++i) different += steps[i] != right[i];
    const double share = 100 * static_cast<double>(different) / static_cast<double>(pixels);
    program.row(what, {ms, static_cast<double>(pixels) / ms / 1e3, share}, share < 10);
  };
  const double plain_ms = warmup::time_ms([&] { draw_plain(right.data(), width, height); }, 1);
  steps = right;
  measured("plain loop", plain_ms);
  measured(std::to_string(program.threads()) + " threads",
           warmup::time_ms([&] { draw_threads(steps.data(), width, height); }, 2));
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<int> on_steps(pixels);
    const auto run = [&](const char* what, dim3 threads) {
      const dim3 blocks((static_cast<unsigned>(width) + threads.x - 1) / threads.x,
                        (static_cast<unsigned>(height) + threads.y - 1) / threads.y);
      const double ms =
          warmup::gpu_time_ms([&] { draw_kernel<<<blocks, threads>>>(on_steps, width, height); });
      on_steps.copy_to(steps);
      measured(what, ms);
    };
    run("kernel, warps of 32 x 1 pixels", dim3(32, 8));
    run("kernel, warps of 8 x 4 pixels", dim3(8, 32));
  }
#endif
  if (write_png(steps, width, height)) {
    std::printf("\nmandelbrot.png is written, from the last row's pixels.\n");
  } else {
    std::printf("\nmandelbrot.png is not written%s\n",
                HAS_STB ? "." : ": stb_image_write.h (libstb-dev) is missing.");
  }
  return program.finish();
}
