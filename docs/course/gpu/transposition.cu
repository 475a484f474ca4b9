// y = x transposed. Reading rows is coalesced, writing columns is not: a tile in shared memory
// turns the rows around.
#include "warmup.h"

namespace {

constexpr int tile = 32, rows = 8;  // a block of 32 x 8 threads moves a tile of 32 x 32 elements

void transpose_plain(const float* x, float* y, size_t n) {
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) y[column * n + row] = x[row * n + column];
  }
}

// In tiles, whose rows of y stay in the cache until they are full.
void transpose_threads(const float* x, float* y, size_t n) {
#pragma omp parallel for collapse(2)
  for (size_t row = 0; row < n; row += tile) {
    for (size_t column = 0; column < n; column += tile) {
      for (size_t i = row; i < row + tile; ++i) {
        for (size_t j = column; j < column + tile; ++j) y[j * n + i] = x[i * n + j];
      }
    }
  }
}

#ifdef __CUDACC__
// What the transposition could reach: as many bytes, in order.
__global__ void copy_rows(const float* x, float* y, size_t n) {
  const size_t column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile + threadIdx.y;
  for (size_t i = 0; i < tile; i += rows) y[(row + i) * n + column] = x[(row + i) * n + column];
}

__global__ void transpose_direct(const float* x, float* y, size_t n) {
  const size_t column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile + threadIdx.y;
  for (size_t i = 0; i < tile; i += rows) y[column * n + row + i] = x[(row + i) * n + column];
}

// With 32 columns, a column of the tile lies in one bank, and its 32 reads are made one after the
// other. With 33, the rows are shifted by a bank each.
template <int columns>
__global__ void transpose_tiled(const float* x, float* y, size_t n) {
  __shared__ float part[tile][columns];
  size_t column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile + threadIdx.y;
  for (size_t i = 0; i < tile; i += rows)
    part[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
  __syncthreads();
  column = blockIdx.y * tile + threadIdx.x;
  row = blockIdx.x * tile + threadIdx.y;
  for (size_t i = 0; i < tile; i += rows)
    y[(row + i) * n + column] = part[threadIdx.x][threadIdx.y + i];
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Transposition", argc, argv);
  const size_t n = program.small() ? 256 : 8192;
  std::printf("%zu x %zu elements.\n\n", n, n);
  std::vector<float> x(n * n), y(n * n);
  for (size_t i = 0; i < n * n; ++i) x[i] = static_cast<float>(i % 65521);
  const auto is_transposed = [&] {
    bool all = true;
    for (size_t row = 0; row < n; ++row) {
      for (size_t column = 0; column < n; ++column)
        all = all && y[row * n + column] == x[column * n + row];
    }
    std::fill(y.begin(), y.end(), 0.0f);
    return all;
  };
  const double gigabytes = 2 * sizeof(float) * static_cast<double>(n * n) / 1e9;
  program.table({"version", "ms", "GB/s", "result"});
  const auto measured = [&](const std::string& what, double ms, bool right) {
    program.row(what, {ms, gigabytes / ms * 1e3}, right);
  };
  const double plain_ms = warmup::time_ms([&] { transpose_plain(x.data(), y.data(), n); });
  measured("plain loop", plain_ms, is_transposed());
  const double threads_ms = warmup::time_ms([&] { transpose_threads(x.data(), y.data(), n); });
  measured(std::to_string(program.threads()) + " threads, in tiles", threads_ms, is_transposed());
#ifdef __CUDACC__
  if (program.has_gpu()) {
    const warmup::DeviceArray<float> on_x(x);
    warmup::DeviceArray<float> on_y(n * n);
    const dim3 blocks(static_cast<unsigned>(n / tile), static_cast<unsigned>(n / tile)),
        threads(tile, rows);
    const auto run = [&](auto kernel) {
      const double ms = warmup::gpu_time_ms([&] { kernel<<<blocks, threads>>>(on_x, on_y, n); });
      on_y.copy_to(y);
      return ms;
    };
    double ms = run(copy_rows);
    measured("kernel, a copy without transposition", ms, y == x);
    ms = run(transpose_direct);
    measured("kernel, columns written directly", ms, is_transposed());
    ms = run(transpose_tiled<tile>);
    measured("kernel, tile of 32 columns: bank conflicts", ms, is_transposed());
    ms = run(transpose_tiled<tile + 1>);
    measured("kernel, tile of 33 columns: none", ms, is_transposed());
  }
#endif
  return program.finish();
}
