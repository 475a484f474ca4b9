// Copy to the GPU, compute, copy back: one after the other, or in parts on several streams that
// overlap.
#include "warmup.h"

#include <cmath>

namespace {

// About as long as the copies of a float on a large GPU.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline float
    work(float x) {
  for (int i = 0; i < 4096; ++i) x = x * 0.5f + 1.0f;  // exact halves: it goes to 2
  return x;
}

void work_plain(float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = work(x[i]);
}

void work_threads(float* x, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) x[i] = work(x[i]);
}

#ifdef __CUDACC__
__global__ void work_kernel(float* x, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] = work(x[i]);
}

// `parts` of equal size, each on the next of `streams`.
void run_parts(float* host, float* device, size_t n, size_t parts,
               const std::vector<cudaStream_t>& streams) {
  for (size_t part = 0; part < parts; ++part) {
    const cudaStream_t stream = streams[part % streams.size()];
    const size_t begin = n * part / parts, count = n * (part + 1) / parts - begin,
                 bytes = count * sizeof(float);
    warmup::check(
        cudaMemcpyAsync(device + begin, host + begin, bytes, cudaMemcpyHostToDevice, stream));
    work_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(device + begin,
                                                                                count);
    warmup::check(
        cudaMemcpyAsync(host + begin, device + begin, bytes, cudaMemcpyDeviceToHost, stream));
  }
  warmup::check(cudaDeviceSynchronize());
}
#endif

}  // namespace

int main(int argc, char** argv) {
  warmup::Program program("Streams", argc, argv);
  const size_t n = program.size(size_t{1} << 24, size_t{1} << 16, 2 * sizeof(float));
  std::vector<float> x(n);
  const auto fill = [&](float* to) {
    for (size_t i = 0; i < n; ++i) to[i] = static_cast<float>(i % 1000);
  };
  const auto is_right = [](const float* result, size_t count) {
    bool all = true;
    for (size_t i = 0; i < count; ++i) all = all && std::abs(result[i] - 2) < 1e-5f;
    return all;
  };
  program.table({"version", "ms", "result"});
  const auto measured = [&](const std::string& what, float* data, size_t count, auto run) {
    double least = 1e30;
    for (int i = 0; i < 4; ++i) {
      fill(data);
      least = std::min(least, warmup::time_ms(run, 1));
    }
    program.row(what, {least}, is_right(data, count));
  };
  const size_t part = n / 256;  // a core is thousands of times slower
  measured("plain loop, 1/256 of the elements", x.data(), part,
           [&] { work_plain(x.data(), part); });
  measured(std::to_string(program.threads()) + " threads, 1/256 of the elements", x.data(), part,
           [&] { work_threads(x.data(), part); });
#ifdef __CUDACC__
  if (program.has_gpu()) {
    warmup::DeviceArray<float> device(n);
    float* pinned = nullptr;
    warmup::check(cudaMallocHost(&pinned, n * sizeof(float)));
    std::vector<cudaStream_t> streams(4), one(1);
    for (cudaStream_t& stream : streams)
      warmup::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    one[0] = streams[0];
    fill(pinned);
    warmup::check(cudaMemcpy(device, pinned, n * sizeof(float), cudaMemcpyHostToDevice));
    const double kernel_ms = warmup::gpu_time_ms(
        [&] { work_kernel<<<static_cast<unsigned>((n + 255) / 256), 256>>>(device, n); });
    program.row("kernel alone", {kernel_ms}, true);
    const double copy_ms = warmup::gpu_time_ms([&] {
      warmup::check(cudaMemcpyAsync(device, pinned, n * sizeof(float), cudaMemcpyHostToDevice));
    });
    program.row("copy to the GPU alone, pinned", {copy_ms}, true);
    measured("one stream, pageable memory", x.data(), n,
             [&] { run_parts(x.data(), device, n, 1, one); });
    measured("one stream, pinned memory", pinned, n, [&] { run_parts(pinned, device, n, 1, one); });
    measured("4 streams, 4 parts, pinned", pinned, n,
             [&] { run_parts(pinned, device, n, 4, streams); });
    measured("4 streams, 16 parts, pinned", pinned, n,
             [&] { run_parts(pinned, device, n, 16, streams); });
    measured("4 streams, 256 parts, pinned", pinned, n,
             [&] { run_parts(pinned, device, n, 256, streams); });
    for (const cudaStream_t stream : streams) warmup::check(cudaStreamDestroy(stream));
    warmup::check(cudaFreeHost(pinned));
  }
#endif
  return program.finish();
}
