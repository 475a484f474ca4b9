// Device memory that grows and shrinks at its end: the addresses of all the GPU's memory are
// reserved at once, and memory is mapped behind them on demand. Added memory adjoins the free
// memory before it, so that a pool needs no more than its peak. (CUDA driver API, "Virtual memory
// management".)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace whisker::cuda {

class GrowingSegment {
 public:
  /// Without memory yet. Null where the GPU or its driver cannot map memory.
  static std::unique_ptr<GrowingSegment> on(int device);
  /// Frees everything, after waiting for the GPU.
  ~GrowingSegment();
  GrowingSegment(const GrowingSegment&) = delete;
  GrowingSegment& operator=(const GrowingSegment&) = delete;

  char* begin() const { return reinterpret_cast<char*>(begin_); }
  char* end() const { return begin() + bytes_; }
  int64_t bytes() const { return bytes_; }
  /// By how much grow(bytes) would grow.
  int64_t rounded(int64_t bytes) const { return (bytes + step_ - 1) / step_ * step_; }

  /// Maps at least `bytes` more behind the end; false, with nothing changed, when the driver has
  /// none left.
  bool grow(int64_t bytes);
  /// Unmaps whole chunks from `first` on, after waiting for the GPU; the chunk that holds `first`
  /// stays.
  void shrink(const char* first);

 private:
  GrowingSegment(int device, uint64_t begin, int64_t most, int64_t step)
      : device_(device), begin_(begin), most_(most), step_(step) {}
  bool map_chunk(int64_t bytes);
  void unmap_last();

  struct Chunk {
    unsigned long long handle;
    int64_t bytes;
  };
  int device_;
  uint64_t begin_;
  int64_t most_;  // addresses
  int64_t step_;  // all sizes are multiples of it
  int64_t bytes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace whisker::cuda
