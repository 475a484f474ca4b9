// Memory is given out chunk by chunk. Where an image lies does not affect the result.
#include "data/staging/image_memory.h"

#include "core/backend/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {

PinnedPool::Chunk::Chunk(Device on, int64_t size)
    : device(on),
      bytes(size),
      memory(static_cast<uint8_t*>(backend_of(on).allocate_pinned(size))) {}

PinnedPool::Chunk::~Chunk() {
  backend_of(device).deallocate_pinned(memory, bytes);
}

std::unique_ptr<PinnedPool::Chunk> PinnedPool::take(int64_t bytes) {
  auto chunk = chunks_.take([bytes](const Chunk& one) { return one.bytes >= bytes; });
  if (chunk) return chunk;
  return std::make_unique<Chunk>(device_, std::max(bytes, chunk_bytes));
}

ImageRows::ImageRows(std::shared_ptr<PinnedPool> pool, int64_t rows)
    : pool_(std::move(pool)),
      records_(static_cast<size_t>(rows)),
      whole_(static_cast<size_t>(rows)),
      jpegs_(static_cast<size_t>(rows)) {}

ImageRows::Span ImageRows::reserve(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (chunks_.empty() || chunks_.back().chunk->bytes - chunks_.back().bytes < bytes) {
    const int64_t at = chunks_.empty() ? 0 : chunks_.back().at + chunks_.back().chunk->bytes;
    chunks_.push_back({.chunk = pool_->take(bytes), .at = at});
  }
  Used& last = chunks_.back();
  const Span span{last.chunk->memory + last.bytes, last.at + last.bytes};
  last.bytes += bytes;
  return span;
}

void ImageRows::move_row(int64_t from, int64_t to) {
  record(to) = record(from);
  whole(to) = whole(from);
  std::swap(jpeg(to), jpeg(from));
}

void ImageRows::clear() {
  for (Used& used : chunks_) pool_->give(std::move(used.chunk));
  chunks_.clear();
  std::ranges::fill(records_, ImageRecord{});
  std::ranges::fill(whole_, WholeImage{});
  for (PackedJpeg& jpeg : jpegs_) std::string().swap(jpeg.file);  // gives its memory back
  mix = {};
  decoder.reset();
  jpeg_share = 0;
  decoded.reset();
}

ImageBatch ImageRows::batch(int64_t rows) const {
  ImageBatch batch{
      .records = {records_.data(), static_cast<size_t>(rows)}, .decoded = decoded, .mix = mix};
  for (const Used& used : chunks_) {
    batch.pieces.push_back({.host = used.chunk->memory, .at = used.at, .bytes = used.bytes});
  }
  return batch;
}

}  // namespace whisker
