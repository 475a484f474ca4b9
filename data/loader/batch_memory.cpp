// Buffers return to their pool through the deleter of the shared_ptr that the tensors keep.
#include "data/loader/batch_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace whisker {
namespace {

constexpr std::align_val_t alignment{64};  // a cache line, and the widest vector

Tensor view(const std::shared_ptr<BatchBuffer>& buffer, void* data, const Shape& shape,
            DType dtype) {
  const int64_t bytes = shape.count() * static_cast<int64_t>(size_of(dtype));
  return Tensor(make_ref<Storage>(cpu_device, bytes, data, buffer), 0, shape, dtype);
}

float* allocate(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  return static_cast<float*>(::operator new(bytes, alignment));
}

}  // namespace

void BatchBuffer::Free::operator()(float* memory) const {
  ::operator delete(memory, alignment);
}

BatchBuffer::BatchBuffer(const BatchLayout& layout)
    : row_count_(layout.row_count),
      values_(allocate(layout.rows * layout.row_count)),
      labels_(static_cast<size_t>(layout.rows)),
      soft_labels_(static_cast<size_t>(layout.rows * layout.classes)),
      images_(layout.pool ? std::make_unique<ImageRows>(layout.pool, layout.rows) : nullptr) {}

void BatchBuffer::move_row(int64_t from, int64_t to) {
  labels_[static_cast<size_t>(to)] = labels_[static_cast<size_t>(from)];
  if (images_) return images_->move_row(from, to);
  std::ranges::copy(row(from), row(to).begin());
}

std::shared_ptr<BatchBuffer> BatchPool::take() {
  std::unique_ptr<BatchBuffer> buffer = buffers_->take();
  if (!buffer) buffer = std::make_unique<BatchBuffer>(layout_);
  const auto give_back = [pool = buffers_](BatchBuffer* used) noexcept {
    if (used->images()) used->images()->clear();
    pool->give(std::unique_ptr<BatchBuffer>(used));
  };
  return std::shared_ptr<BatchBuffer>(buffer.release(), give_back);
}

Batch view_batch(const std::shared_ptr<BatchBuffer>& buffer, const Shape& sample_shape,
                 std::vector<int64_t> indices) {
  const auto rows = static_cast<int64_t>(indices.size());
  std::vector<int64_t> extents{rows};
  extents.insert(extents.end(), sample_shape.begin(), sample_shape.end());
  Batch batch;
  if (buffer->images()) {
    batch.images = std::shared_ptr<const ImageRows>(buffer, buffer->images());
  } else {
    batch.inputs = view(buffer, buffer->row(0).data(), Shape(extents), DType::f32);
  }
  batch.labels = view(buffer, buffer->labels().data(), {rows}, DType::i64);
  if (!buffer->soft_labels().empty()) {
    const auto classes =
        static_cast<int64_t>(buffer->soft_labels().size() / buffer->labels().size());
    batch.soft_labels = view(buffer, buffer->soft_labels().data(), {rows, classes}, DType::f32);
  }
  batch.indices = std::move(indices);
  return batch;
}

}  // namespace whisker
