// The ring of buffers behind batches: a batch's memory comes back here when the last tensor that
// shows it is gone, and serves a later batch, so that a steady run allocates nothing.
#pragma once

#include "data/dataset.h"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace whisker {

/// Room for one batch; the tensors of a Batch are views into it.
class BatchBuffer {
 public:
  BatchBuffer(int64_t rows, int64_t row_count, int64_t classes);
  std::span<float> row(int64_t i) { return {images_.get() + i * row_count_, size_t(row_count_)}; }
  std::span<int64_t> labels() { return labels_; }
  /// (rows, classes); empty without soft labels.
  std::span<float> soft_labels() { return soft_labels_; }
  int64_t row_count() const { return row_count_; }

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  int64_t row_count_;  // values per row
  std::unique_ptr<float[], Free> images_;
  std::vector<int64_t> labels_;
  std::vector<float> soft_labels_;
};

/// Gives out buffers of one size. Thread-safe; buffers may outlive the ring.
class BatchRing {
 public:
  /// `classes` is 0 when no soft labels are wanted.
  BatchRing(int64_t rows, int64_t row_count, int64_t classes);
  /// A free buffer, or a new one when all are in use.
  std::shared_ptr<BatchBuffer> take();
  /// Buffers made so far, for tests.
  int64_t made() const;

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<BatchBuffer>> free;
    int64_t made = 0;
  };
  int64_t rows_;
  int64_t row_count_;
  int64_t classes_;
  std::shared_ptr<Shelf> shelf_;
};

/// Tensors over the first indices.size() rows of `buffer`, which live as long as any of them does.
Batch view_batch(const std::shared_ptr<BatchBuffer>& buffer, const Shape& sample_shape,
                 std::vector<int64_t> indices);

}  // namespace whisker
