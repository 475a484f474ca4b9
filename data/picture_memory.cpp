// Room is given out chunk by chunk; where a picture lies never matters to what becomes of it.
#include "data/picture_memory.h"

#include "core/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {

PinnedShelf::~PinnedShelf() {
  for (const Chunk& chunk : free_) {
    backend_of(device_).deallocate_pinned(chunk.memory, chunk.bytes);
  }
}

PinnedShelf::Chunk PinnedShelf::take(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(free_, [bytes](const Chunk& chunk) { return chunk.bytes >= bytes; });
    if (found != free_.end()) {
      const Chunk chunk = *found;
      free_.erase(found);
      return chunk;
    }
  }
  const int64_t size = std::max(bytes, chunk_bytes);
  return {static_cast<uint8_t*>(backend_of(device_).allocate_pinned(size)), size};
}

void PinnedShelf::give(Chunk chunk) {
  const std::lock_guard lock(mutex_);
  free_.push_back(chunk);
}

PictureRows::PictureRows(std::shared_ptr<PinnedShelf> shelf, int64_t rows)
    : shelf_(std::move(shelf)),
      records_(static_cast<size_t>(rows)),
      whole_(static_cast<size_t>(rows)),
      jpegs_(static_cast<size_t>(rows)) {}

PictureRows::Room PictureRows::reserve(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (chunks_.empty() || chunks_.back().chunk.bytes - chunks_.back().bytes < bytes) {
    const int64_t at = chunks_.empty() ? 0 : chunks_.back().at + chunks_.back().chunk.bytes;
    chunks_.push_back({.chunk = shelf_->take(bytes), .at = at});
  }
  Used& last = chunks_.back();
  const Room room{last.chunk.memory + last.bytes, last.at + last.bytes};
  last.bytes += bytes;
  return room;
}

void PictureRows::move_row(int64_t from, int64_t to) {
  record(to) = record(from);
  whole(to) = whole(from);
  std::swap(jpeg(to), jpeg(from));
}

void PictureRows::clear() {
  for (const Used& used : chunks_) shelf_->give(used.chunk);
  chunks_.clear();
  std::ranges::fill(records_, PictureRecord{});
  std::ranges::fill(whole_, WholePicture{});
  for (StagedJpeg& jpeg : jpegs_) std::string().swap(jpeg.file);  // gives its memory back
  mix = {};
  decoder.reset();
  jpeg_share = 0;
  decoded.reset();
}

PictureBatch PictureRows::batch(int64_t rows) const {
  PictureBatch batch{
      .records = {records_.data(), static_cast<size_t>(rows)}, .decoded = decoded, .mix = mix};
  for (const Used& used : chunks_) {
    batch.pieces.push_back({.host = used.chunk.memory, .at = used.at, .bytes = used.bytes});
  }
  return batch;
}

}  // namespace whisker
