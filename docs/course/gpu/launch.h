// Launches the kernel of an exercise: on an emulated block, in three orders of its threads, or
// under nvcc on the GPU. Arrays copies a View to where the kernel reaches it, and results back.
#pragma once

#include "../course.h"
#include "gpu.h"

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#ifndef __CUDACC__
#include "block_emulation.h"
#endif

namespace gpu {

using course::Stop;
using course::View;

[[noreturn]] inline void stop(const std::string& text) {
  Stop reason;
  std::snprintf(reason.text, sizeof reason.text, "%s", text.c_str());
  throw reason;
}

#ifdef __CUDACC__

inline void check(cudaError_t status) {
  if (status != cudaSuccess) stop(std::string("CUDA: ") + cudaGetErrorString(status));
}

/// A View in the GPU's memory, as elements of type E.
template <class T, class E = T>
class Array {
 public:
  explicit Array(View<const T> x) : Array(x.data, x.count(), nullptr) {}
  explicit Array(View<T> y) : Array(y.data, y.count(), y.data) {}
  /// A result that the kernel also reads: it starts as `before`.
  Array(View<T> y, View<const T> before) : Array(before.data, y.count(), y.data) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }
  operator E*() const { return data_; }
  void copy_back() const { check(cudaMemcpy(result_, data_, bytes_, cudaMemcpyDeviceToHost)); }

 private:
  Array(const T* values, int count, T* result)
      : bytes_(sizeof(E) * static_cast<size_t>(count)), result_(result) {
    const std::vector<E> converted(values, values + count);
    check(cudaMalloc(&data_, bytes_));
    check(cudaMemcpy(data_, converted.data(), bytes_, cudaMemcpyHostToDevice));
  }
  size_t bytes_;
  E* data_ = nullptr;
  T* result_;
};

/// kernel<<<grid, block>>>(arguments...); throws Stop for what CUDA reports.
template <class... P>
void launch(dim3 grid, dim3 block, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  kernel<<<grid, block>>>(arguments...);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
}
inline void demand_coalesced() {}
inline void demand_no_bank_conflicts() {}
inline void demand_reads(double, const char*) {}

#else

/// Memory of one array, with 64 KiB on either side where no other array is.
class Memory {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// As before the kernel: results hold NaN.
  void reset() {
    std::memset(begin_ - gap, 0xff, bytes_ + 2 * gap);
    if (before_) std::memcpy(begin_, before_, bytes_);
    emulation::Array& array = emulation::block.checks.arrays[address()];
    array = {name_, address(), address() + bytes_, element_bytes_, access_, {}};
    array.cells.resize(bytes_);
    for (emulation::Cell& cell : array.cells) cell.written = before_ != nullptr;
  }
  void stop_if_not_written() const {
    const auto& cells = emulation::block.checks.arrays.at(address()).cells;
    size_t first = cells.size(), missing = 0;
    for (size_t i = 0; i < cells.size(); i += element_bytes_) {
      if (cells[i].written) continue;
      first = std::min(first, i / element_bytes_);
      ++missing;
    }
    if (missing == 0) return;
    stop("no thread writes " + name_ + "[" + std::to_string(first) + "]" +
         (missing > 1 ? " and " + std::to_string(missing - 1) + " more of its " +
                            std::to_string(cells.size() / element_bytes_) + " elements"
                      : ""));
  }
  /// Throws Stop where the result differs from that in forward order.
  void compare(const std::vector<unsigned char>& forward, const char* order) const {
    for (size_t at = 0; at < bytes_; at += element_bytes_) {
      const double here = number_(begin_ + at), there = number_(forward.data() + at);
      const bool both_nan = std::isnan(here) && std::isnan(there);
      if (both_nan || here == there || std::abs(here - there) <= 1e-4 * (1 + std::abs(there)))
        continue;
      stop(name_ + "[" + std::to_string(at / element_bytes_) +
           "] depends on the order of the threads: " + std::to_string(there) + " forward, " +
           std::to_string(here) + " in " + order + " order");
    }
  }
  std::vector<unsigned char> bytes() const { return {begin_, begin_ + bytes_}; }

  static inline std::vector<Memory*> all;

 protected:
  ~Memory() {
    all.erase(std::find(all.begin(), all.end(), this));
    emulation::block.checks.arrays.erase(address());
    std::free(begin_ - gap);
  }
  using Number = double (*)(const unsigned char*);
  Memory(const char* name, emulation::Access access, const void* before, size_t bytes,
         size_t element_bytes, Number number)
      : name_(name),
        access_(access),
        before_(before),
        bytes_(bytes),
        element_bytes_(element_bytes),
        number_(number) {
    const size_t whole = (bytes + 127) / 128 * 128 + 2 * gap;
    begin_ = static_cast<unsigned char*>(std::aligned_alloc(128, whole)) + gap;
    all.push_back(this);
  }
  static constexpr size_t gap = 64 << 10;
  std::string name_;
  emulation::Access access_;
  const void* before_;
  size_t bytes_, element_bytes_;
  Number number_;  // an element as double
  unsigned char* begin_;

 private:
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(begin_); }
};

template <class T>
class Array : public Memory {
 public:
  explicit Array(View<const T> x)
      : Array(x.name, emulation::Access::input, x.data, x.count(), nullptr) {}
  explicit Array(View<T> y)
      : Array(y.name, emulation::Access::output, nullptr, y.count(), y.data) {}
  /// A result that the kernel also reads: it starts as `before`.
  Array(View<T> y, View<const T> before)
      : Array(y.name, emulation::Access::updated, before.data, y.count(), y.data) {}
  operator T*() const { return reinterpret_cast<T*>(begin_); }
  void copy_back() const { std::memcpy(result_, begin_, bytes_); }

 private:
  Array(const char* name, emulation::Access access, const void* before, int count, T* result)
      : Memory(name, access, before, sizeof(T) * static_cast<size_t>(count), sizeof(T), as_double),
        result_(result) {}
  static double as_double(const unsigned char* bytes) {
    T value{};
    std::memcpy(&value, bytes, sizeof value);
    return static_cast<double>(value);
  }
  T* result_;
};

/// Runs the kernel on an emulated block in each order. Throws Stop for what is wrong in the way the
/// threads work together; whether the result is right is seen later.
template <class... P>
void launch(dim3 grid, dim3 block, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  using emulation::Order;
  auto call = [&] { kernel(arguments...); };
  std::vector<std::vector<unsigned char>> forward;
  for (const Order order : {Order::forward, Order::reverse, Order::random}) {
    for (Memory* memory : Memory::all) memory->reset();
    emulation::block.run(grid, block, order, call);
    auto& findings = emulation::block.checks.findings;
    if (!findings.empty()) {
      stop(std::min_element(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
             return a.cause < b.cause;
           })->text);
    }
    for (size_t i = 0; i < Memory::all.size(); ++i) {
      Memory::all[i]->stop_if_not_written();
      if (order == Order::forward) forward.push_back(Memory::all[i]->bytes());
      Memory::all[i]->compare(forward[i], emulation::name_of(order));
    }
  }
}

/// Throws Stop if the first block of the last launch read from global memory more often than it
/// must for `what`.
inline void demand_reads(double most, const char* what) {
  const double reads = emulation::block.checks.traffic.summary().reads;
  if (reads <= most) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "a block reads %.0f times from global memory; %s need %.0f reads", reads, what,
                most);
  stop(text);
}
/// Throws Stop if the warps of the last launch read or wrote much more of global memory than they
/// used.
inline void demand_coalesced() {
  const auto traffic = emulation::block.checks.traffic.summary();
  if (traffic.sectors <= 1.5 * traffic.least_sectors) return;
  char text[160];
  std::snprintf(text, sizeof text,
                "it is right, but not coalesced%s: it moves %.1f times the memory that it uses. "
                "Neighbouring threads should access neighbouring elements",
                traffic.worst_line.c_str(), traffic.sectors / traffic.least_sectors);
  stop(text);
}
/// Throws Stop if lanes of a warp wait for each other at a bank of shared memory.
inline void demand_no_bank_conflicts() {
  const auto traffic = emulation::block.checks.traffic.summary();
  if (traffic.bank_conflicts <= 1) return;
  stop("it is right, but " + std::to_string(traffic.bank_conflicts) +
       " lanes of a warp access one bank" + traffic.conflict_line +
       ": a column more in the array moves its rows to other banks");
}

#endif

/// Whether y[k] is about right(k): the demands come after that.
template <class T, class Right>
bool is_right(View<T> y, Right right) {
  for (int k = 0; k < y.count(); ++k) {
    if (!(std::abs(static_cast<double>(y[k]) - static_cast<double>(right(k))) < 1e-3)) return false;
  }
  return true;
}

}  // namespace gpu
