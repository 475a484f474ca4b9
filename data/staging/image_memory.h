// The decoded images of a batch on their way to a device: pixels in pinned memory, and for each
// row the record of what the device does with them. Chunks of pinned memory are kept and reused, as
// they are slow to get.
#pragma once

#include "core/image/image_pipeline.h"
#include "core/memory/free_list.h"
#include "core/tensor/device.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

class DeviceImageCache;

/// Pinned memory of one device's backend. Thread-safe.
class PinnedPool {
 public:
  struct Chunk {
    Chunk(Device on, int64_t size);
    ~Chunk();
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    Device device;
    int64_t bytes;
    uint8_t* memory;
  };

  explicit PinnedPool(Device device) : device_(device) {}
  /// A chunk of at least `bytes`: a free one, or a new one of at least chunk_bytes.
  std::unique_ptr<Chunk> take(int64_t bytes);
  void give(std::unique_ptr<Chunk> chunk) noexcept { chunks_.give(std::move(chunk)); }

  static constexpr int64_t chunk_bytes = int64_t{4} << 20;

 private:
  Device device_;
  FreeList<Chunk> chunks_;
};

/// An image that was packed whole, for a device's cache to keep.
struct WholeImage {
  DeviceImageCache* cache = nullptr;  ///< null: nothing is to be kept
  int64_t index = 0;                  ///< of the image in its dataset
  int64_t at = 0;                     ///< of the batch's bytes
  int64_t bytes = 0;
  int height = 0;  ///< for DeviceImageCache::keep
  int width = 0;
};

/// A file that a device is to decode: see data/staging/jpeg_staging.h. Its record's source is set
/// once it is decoded.
struct PackedJpeg {
  std::string file = {};  ///< plain; empty: none, the row's pixels are there
  int height = 0;
  int width = 0;
};

class ImageRows {
 public:
  ImageRows(std::shared_ptr<PinnedPool> pool, int64_t rows);
  ~ImageRows() { clear(); }
  ImageRows(const ImageRows&) = delete;
  ImageRows& operator=(const ImageRows&) = delete;

  /// `bytes` of host memory, and their offset among the batch's bytes. Thread-safe.
  struct Span {
    uint8_t* host = nullptr;
    int64_t at = 0;
  };
  Span reserve(int64_t bytes);

  ImageRecord& record(int64_t row) { return records_[static_cast<size_t>(row)]; }
  const WholeImage& whole(int64_t row) const { return whole_[static_cast<size_t>(row)]; }
  WholeImage& whole(int64_t row) { return whole_[static_cast<size_t>(row)]; }
  PackedJpeg& jpeg(int64_t row) { return jpegs_[static_cast<size_t>(row)]; }
  void move_row(int64_t from, int64_t to);
  /// Gives the pixels' memory back and forgets the records.
  void clear();

  /// What the first `rows` rows hold, for a pipeline. Views of this object.
  ImageBatch batch(int64_t rows) const;
  /// How the rows are mixed.
  BatchMix mix = {};
  /// Decodes the JPEG files of `jpeg_share` of the rows; null: the host decodes all files.
  std::shared_ptr<JpegDecoder> decoder = {};
  double jpeg_share = 0;
  /// The result of `decoder`.
  std::shared_ptr<const DecodedImages> decoded = {};

 private:
  struct Used {
    std::unique_ptr<PinnedPool::Chunk> chunk;
    int64_t at = 0;
    int64_t bytes = 0;
  };
  std::shared_ptr<PinnedPool> pool_;
  std::vector<ImageRecord> records_;
  std::vector<WholeImage> whole_;
  std::vector<PackedJpeg> jpegs_;
  std::mutex mutex_;
  std::vector<Used> chunks_;
};

}  // namespace whisker
