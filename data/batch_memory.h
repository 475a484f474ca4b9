// The ring of buffers behind batches: a batch's memory comes back here when the last tensor that
// shows it is gone, and serves a later batch, so that a steady run allocates nothing.
#pragma once

#include "data/dataset.h"
#include "data/picture_memory.h"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace whisker {

/// What a batch has room for.
struct BatchRoom {
  int64_t rows = 0;
  int64_t row_count = 0;  ///< values per row; 0 with `shelf`
  int64_t classes = 0;    ///< 0 when no soft labels are wanted
  /// Set: pictures for a device instead of values.
  std::shared_ptr<PinnedShelf> shelf = {};
};

/// Room for one batch; the tensors of a Batch are views into it.
class BatchBuffer {
 public:
  explicit BatchBuffer(const BatchRoom& room);
  std::span<float> row(int64_t i) { return {images_.get() + i * row_count_, size_t(row_count_)}; }
  /// Null when rows are values.
  PictureRows* pictures() { return pictures_.get(); }
  /// Row `to` becomes what row `from` is.
  void move_row(int64_t from, int64_t to);
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
  std::unique_ptr<PictureRows> pictures_;
};

/// Gives out buffers of one size. Thread-safe; buffers may outlive the ring.
class BatchRing {
 public:
  explicit BatchRing(BatchRoom room);
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
  BatchRoom room_;
  std::shared_ptr<Shelf> shelf_;
};

/// Tensors over the first indices.size() rows of `buffer`, which live as long as any of them does.
Batch view_batch(const std::shared_ptr<BatchBuffer>& buffer, const Shape& sample_shape,
                 std::vector<int64_t> indices);

}  // namespace whisker
