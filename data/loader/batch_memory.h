// The pool of batch buffers. A buffer returns to the pool when the last tensor that views it is
// gone, and is reused, so that a steady run allocates nothing.
#pragma once

#include "core/memory/free_list.h"
#include "data/dataset.h"
#include "data/staging/image_memory.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace whisker {

/// The sizes of a batch.
struct BatchLayout {
  int64_t rows = 0;
  int64_t row_count = 0;  ///< values per row; 0 with `pool`
  int64_t classes = 0;    ///< 0 when no soft labels are wanted
  /// Set: images for a device instead of values.
  std::shared_ptr<PinnedPool> pool = {};
};

/// Memory of one batch; the tensors of a Batch are views into it.
class BatchBuffer {
 public:
  explicit BatchBuffer(const BatchLayout& layout);
  std::span<float> row(int64_t i) { return {values_.get() + i * row_count_, size_t(row_count_)}; }
  /// Null when rows are values.
  ImageRows* images() { return images_.get(); }
  /// Copies row `from` to row `to`.
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
  std::unique_ptr<float[], Free> values_;
  std::vector<int64_t> labels_;
  std::vector<float> soft_labels_;
  std::unique_ptr<ImageRows> images_;
};

/// A pool of buffers of one size. Thread-safe; buffers may outlive the pool.
class BatchPool {
 public:
  explicit BatchPool(BatchLayout layout) : layout_(std::move(layout)) {}
  /// A free buffer, or a new one when all are in use.
  std::shared_ptr<BatchBuffer> take();
  /// Buffers made so far, for tests.
  int64_t made() const { return buffers_->made(); }

 private:
  BatchLayout layout_;
  std::shared_ptr<FreeList<BatchBuffer>> buffers_ = std::make_shared<FreeList<BatchBuffer>>();
};

/// Tensors over the first indices.size() rows of `buffer`, which live as long as any of them does.
Batch view_batch(const std::shared_ptr<BatchBuffer>& buffer, const Shape& sample_shape,
                 std::vector<int64_t> indices);

}  // namespace whisker
