// Buffers return to their shelf through the deleter of the shared_ptr that the tensors keep.
#include "data/batch_memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace whisker {
namespace {

constexpr size_t alignment = 64;  // a cache line, and the widest vector

Tensor view(const std::shared_ptr<BatchBuffer>& buffer, void* data, const Shape& shape,
            DType dtype) {
  const int64_t bytes = shape.count() * static_cast<int64_t>(size_of(dtype));
  return Tensor(make_ref<Storage>(cpu_device, bytes, data, buffer), 0, shape, dtype);
}

float* allocate(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t rounded = (bytes + alignment) / alignment * alignment;  // never zero
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<float*>(memory);
}

}  // namespace

void BatchBuffer::Free::operator()(float* memory) const {
  std::free(memory);
}

BatchBuffer::BatchBuffer(const BatchRoom& room)
    : row_count_(room.row_count),
      images_(allocate(room.rows * room.row_count)),
      labels_(static_cast<size_t>(room.rows)),
      soft_labels_(static_cast<size_t>(room.rows * room.classes)),
      pictures_(room.shelf ? std::make_unique<PictureRows>(room.shelf, room.rows) : nullptr) {}

void BatchBuffer::move_row(int64_t from, int64_t to) {
  labels_[static_cast<size_t>(to)] = labels_[static_cast<size_t>(from)];
  if (pictures_) return pictures_->move_row(from, to);
  std::ranges::copy(row(from), row(to).begin());
}

BatchRing::BatchRing(BatchRoom room) : room_(std::move(room)), shelf_(std::make_shared<Shelf>()) {}

std::shared_ptr<BatchBuffer> BatchRing::take() {
  std::unique_ptr<BatchBuffer> buffer;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (shelf_->free.empty()) {
      ++shelf_->made;
    } else {
      buffer = std::move(shelf_->free.back());
      shelf_->free.pop_back();
    }
  }
  if (!buffer) buffer = std::make_unique<BatchBuffer>(room_);
  const auto give_back = [shelf = shelf_](BatchBuffer* used) {
    std::unique_ptr<BatchBuffer> owned(used);
    if (used->pictures()) used->pictures()->clear();
    const std::lock_guard lock(shelf->mutex);
    shelf->free.push_back(std::move(owned));
  };
  return std::shared_ptr<BatchBuffer>(buffer.release(), give_back);
}

int64_t BatchRing::made() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->made;
}

Batch view_batch(const std::shared_ptr<BatchBuffer>& buffer, const Shape& sample_shape,
                 std::vector<int64_t> indices) {
  const auto rows = static_cast<int64_t>(indices.size());
  std::vector<int64_t> extents{rows};
  extents.insert(extents.end(), sample_shape.begin(), sample_shape.end());
  Batch batch;
  if (buffer->pictures()) {
    batch.pictures = std::shared_ptr<const PictureRows>(buffer, buffer->pictures());
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
