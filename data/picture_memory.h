// The decoded pictures of a batch on their way to a device: pixels in pinned memory, and for each
// row the record of what the device does with them. Chunks of pinned memory are kept and reused, as
// they are slow to get.
#pragma once

#include "core/device.h"
#include "core/picture_pipeline.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace whisker {

class DevicePictureCache;

/// Pinned memory of one device's backend. Thread-safe.
class PinnedShelf {
 public:
  struct Chunk {
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
  };

  explicit PinnedShelf(Device device) : device_(device) {}
  ~PinnedShelf();
  PinnedShelf(const PinnedShelf&) = delete;
  PinnedShelf& operator=(const PinnedShelf&) = delete;

  /// A chunk of at least `bytes`: a free one, or a new one of at least chunk_bytes.
  Chunk take(int64_t bytes);
  void give(Chunk chunk);
  Device device() const { return device_; }

  static constexpr int64_t chunk_bytes = int64_t{4} << 20;

 private:
  Device device_;
  std::mutex mutex_;
  std::vector<Chunk> free_;
};

/// A picture that was staged whole, for a device's cache to keep.
struct WholePicture {
  DevicePictureCache* cache = nullptr;  ///< null: nothing is to be kept
  int64_t index = 0;                    ///< of the picture in its dataset
  int64_t at = 0;                       ///< of the batch's bytes
  int64_t bytes = 0;
  int height = 0;  ///< for DevicePictureCache::keep
  int width = 0;
};

/// A file that a device is to decode: see data/jpeg_stage.h. Its record's source is the crop, with
/// an offset from the picture's first pixel.
struct StagedJpeg {
  std::string file = {};  ///< plain; empty: none, the row's pixels are there
  int height = 0;         ///< stored
  int width = 0;
  int orientation = 1;
  Rect crop{};  ///< upright
};

class PictureRows {
 public:
  PictureRows(std::shared_ptr<PinnedShelf> shelf, int64_t rows);
  ~PictureRows() { clear(); }
  PictureRows(const PictureRows&) = delete;
  PictureRows& operator=(const PictureRows&) = delete;

  /// Room for `bytes` in host memory, and where that is among the batch's bytes. Thread-safe.
  struct Room {
    uint8_t* host = nullptr;
    int64_t at = 0;
  };
  Room reserve(int64_t bytes);

  PictureRecord& record(int64_t row) { return records_[static_cast<size_t>(row)]; }
  const WholePicture& whole(int64_t row) const { return whole_[static_cast<size_t>(row)]; }
  WholePicture& whole(int64_t row) { return whole_[static_cast<size_t>(row)]; }
  StagedJpeg& jpeg(int64_t row) { return jpegs_[static_cast<size_t>(row)]; }
  void move_row(int64_t from, int64_t to);
  /// Gives the pixels' memory back and forgets the records.
  void clear();

  /// What the first `rows` rows hold, for a pipeline. Views of this object.
  PictureBatch batch(int64_t rows) const;
  /// How the rows are mixed.
  BatchMix mix = {};
  /// Who decodes the JPEG files of `jpeg_share` of the rows; null: the host all of them.
  std::shared_ptr<JpegDecoder> decoder = {};
  double jpeg_share = 0;
  /// What `decoder` made of them.
  std::shared_ptr<const DecodedPictures> decoded = {};

 private:
  struct Used {
    PinnedShelf::Chunk chunk;
    int64_t at = 0;
    int64_t bytes = 0;
  };
  std::shared_ptr<PinnedShelf> shelf_;
  std::vector<PictureRecord> records_;
  std::vector<WholePicture> whole_;
  std::vector<StagedJpeg> jpegs_;
  std::mutex mutex_;
  std::vector<Used> chunks_;
};

}  // namespace whisker
