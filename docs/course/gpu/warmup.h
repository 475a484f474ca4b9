// What the programs of the GPU warm-ups share: their sizes, timing, checks and tables. Compiled by
// nvcc, a program runs on the CPU and on the GPU; compiled by a C++ compiler, on the CPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <omp.h>
#include <unistd.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace warmup {

/// 100000000 as "100,000,000".
inline std::string grouped(size_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// The least of a few runs, in milliseconds: what is above it is other work of the machine.
template <class F>
double time_ms(F f, int runs = 3) {
  double least = 1e30;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    least = std::min(least, time.count());
  }
  return least;
}

#ifdef __CUDACC__
inline void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

/// The same of what `f` starts on the GPU, after one run that is not counted.
template <class F>
double gpu_time_ms(F f, int runs = 10) {
  cudaEvent_t start, end;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  float least = 1e30f;
  for (int run = 0; run <= runs; ++run) {
    check(cudaEventRecord(start));
    f();
    check(cudaGetLastError());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float time = 0;
    check(cudaEventElapsedTime(&time, start, end));
    if (run > 0) least = std::min(least, time);
  }
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(end));
  return least;
}

/// An array in the GPU's memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { check(cudaMalloc(&data_, size * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    copy_from(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  operator T*() const { return data_; }
  void copy_from(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  void copy_to(std::vector<T>& values) const {
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
  }
  void clear() { check(cudaMemset(data_, 0, size_ * sizeof(T))); }

 private:
  T* data_ = nullptr;
  size_t size_;
};

static __global__ void does_nothing() {}
#endif

/// A program's options, and what it prints: tables for the page. finish() is main()'s result.
class Program {
 public:
  Program(const char* title, int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--small") != 0) {
        std::printf("usage: %s [--small]\n", argv[0]);
        std::exit(2);
      }
      small_ = true;
    }
    std::printf("## %s\n\n", title);
#ifdef __CUDACC__
    cudaError_t status = cudaGetDevice(&device_);
    cudaFuncAttributes attributes;
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, does_nothing);
    if (status == cudaSuccess) {
      cudaGetDeviceProperties(&gpu_, device_);
      has_gpu_ = true;
    } else {
      // What CUDA also reports where no driver is installed.
      no_gpu_ =
          std::string("No GPU (") +
          (status == cudaErrorInsufficientDriver ? "no driver of NVIDIA, or one that is too old"
                                                 : cudaGetErrorString(status)) +
          ")";
    }
#else
    no_gpu_ = "Compiled without CUDA";
#endif
  }

  bool small() const {
    return small_;
  }
  int threads() const {
    return omp_get_max_threads();
  }
  bool has_gpu() const {
    return has_gpu_;
  }
#ifdef __CUDACC__
  const cudaDeviceProp& gpu() const {
    return gpu_;
  }
#endif

  /// `full` elements, or `few` with --small; fewer, and it says so, where `bytes` for each are more
  /// than half of the free memory.
  size_t size(size_t full, size_t few, size_t bytes) const {
    size_t count = small_ ? few : full;
    const size_t free_bytes =
        static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    while (count > few && count * bytes > free_bytes / 2) count /= 2;
    if (!small_ && count < full) {
      std::printf("%s elements instead of %s: %s MB of memory are free.\n\n",
                  grouped(count).c_str(), grouped(full).c_str(),
                  grouped(free_bytes / 1000000).c_str());
    } else if (small_) {
      std::printf("--small: %s elements instead of %s.\n\n", grouped(count).c_str(),
                  grouped(full).c_str());
    }
    return count;
  }

  /// Starts a table: the first column says what, numbers follow.
  void table(const std::vector<const char*>& columns) {
    std::printf("|");
    for (const char* column : columns) std::printf(" %s |", column);
    std::printf("\n|---|");
    for (size_t i = 1; i < columns.size(); ++i) std::printf("---:|");
    std::printf("\n");
  }
  /// Numbers with three significant digits, a missing one is NaN; then "right" or "WRONG".
  void row(const std::string& what, const std::vector<double>& numbers, bool right) {
    row_begins(what, numbers);
    std::printf(" %s |\n", right ? "right" : "WRONG");
    std::fflush(stdout);
    if (!right) ++wrong_;
  }
  void row(const std::string& what, const std::vector<double>& numbers) {
    row_begins(what, numbers);
    std::printf("\n");
    std::fflush(stdout);
  }
  void expect(bool right, const std::string& what) {
    if (right) return;
    ++wrong_;
    std::printf("WRONG: %s\n", what.c_str());
  }

  int finish() {
    if (!has_gpu_) {
      std::printf("\n%s: the rows of the GPU are missing.%s\n", no_gpu_.c_str(),
                  no_gpu_[0] == 'C' ? " docs/course/gpu/run_all.sh compiles with nvcc." : "");
    }
    if (wrong_ > 0) std::printf("\n%d results are wrong.\n", wrong_);
    std::printf("\n");
    return wrong_ > 0 ? 1 : 0;
  }

 private:
  static void row_begins(const std::string& what, const std::vector<double>& numbers) {
    std::printf("| %s |", what.c_str());
    for (const double number : numbers) {
      if (number != number)
        std::printf(" |");
      else if (number < 0.1)
        std::printf(" %.3g |", number);
      else
        std::printf(" %.*f |", number < 10 ? 2 : number < 100 ? 1 : 0, number);
    }
  }

  bool small_ = false, has_gpu_ = false;
  int device_ = 0, wrong_ = 0;
  std::string no_gpu_;
#ifdef __CUDACC__
  cudaDeviceProp gpu_{};
#endif
};

}  // namespace warmup
