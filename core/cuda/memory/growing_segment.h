// Device memory that grows and shrinks at its end: addresses for all of the GPU's memory are
// reserved at once, and memory is mapped behind them as it is wanted. What lies free before the end
// then adjoins what is added, so that a pool needs no more than its peak. (CUDA driver API,
// "Virtual memory management".)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace whisker::cuda {

class GrowingSegment {
 public:
  /// Without memory yet. Null where the GPU or its driver cannot map memory.
  static std::unique_ptr<GrowingSegment> on(int device);
  /// Gives everything back, after waiting for the GPU.
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
  /// Gives back what was mapped from `first` on, after waiting for the GPU, in the pieces in which
  /// it was taken; the one that holds `first` stays.
  void shrink(const char* first);

 private:
  GrowingSegment(int device, uint64_t begin, int64_t most, int64_t step)
      : device_(device), begin_(begin), most_(most), step_(step) {}
  bool map_piece(int64_t bytes);
  void unmap_last();

  struct Piece {
    unsigned long long handle;
    int64_t bytes;
  };
  int device_;
  uint64_t begin_;
  int64_t most_;  // addresses
  int64_t step_;  // sizes are multiples of
  int64_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace whisker::cuda
