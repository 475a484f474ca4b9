// An image folder as a dataset: reads, decodes and augments (or only preprocesses) each image
// straight into the batch's memory, with decoded images kept in memory or on disk if wanted.
#pragma once

#include "core/memory/free_list.h"
#include "data/codec/decode.h"
#include "data/dataset.h"
#include "data/images/file_stamps.h"
#include "data/images/image_cache.h"
#include "data/images/image_folder.h"
#include "data/staging/device_cache.h"
#include "data/staging/image_staging.h"
#include "data/transforms/augment_sampler.h"
#include "data/transforms/transform_image.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

enum class CacheKind { none, memory, disk, device };

struct CacheOptions {
  CacheKind kind = CacheKind::none;
  /// Bytes in memory: what does not fit is decoded anew each time, with the same result. On a
  /// device: of its memory; what does not fit there goes to as much memory of the host.
  uint64_t max_bytes = uint64_t{2} << 30;
  /// The device of a cache on one. Only pack() finds images there.
  Device device = cpu_device;
  /// The file of a cache on disk, made on construction when it is missing or of other data.
  std::filesystem::path file = {};
  /// Images are kept shrunk to this short side; 0: as decoded.
  int short_side = 0;
};

struct ImageDatasetOptions {
  Preprocess preprocess = {};
  /// Training augmentation; nothing: every image exactly as evaluate and classify see it.
  std::optional<AugmentConfig> augment = {};
  uint64_t seed = 0;  ///< augmentation is keyed by (seed, epoch, index)
  int64_t max_pixels = default_max_pixels;
  /// Lets training crops be decoded scaled and in part. With a cache images are
  /// always decoded exactly, so that it does not matter which of them are cached.
  bool fast_decode = true;
  CacheOptions cache = {};
  int workers = -1;  ///< for making a disk cache; -1: auto
  /// Stamps of the folder's images, shared with another dataset of them; null: its own.
  std::shared_ptr<FileStamps> stamps = {};
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(ImageFolder folder, ImageDatasetOptions options);
  ~ImageDataset() override;

  int64_t size() const override { return folder_.size(); }
  /// The image in epoch 0.
  Sample get(int64_t index) const override;
  Sample sample(SampleKey key) const override;
  Shape sample_shape() const override;
  /// Throws data naming the file when it cannot be read as an image.
  int64_t write(SampleKey key, std::span<float> image) const override;
  int64_t pack(SampleKey key, ImageRows& rows, int64_t row) const override;
  std::string take_note() const override;
  /// Null without a device cache.
  const DeviceImageCache* device_cache() const { return device_cache_.get(); }

  const ImageFolder& folder() const { return folder_; }
  const ImageDatasetOptions& options() const { return options_; }
  /// Stamps of the folder's images, as far as they have been read.
  FileStamps& stamps() const { return *stamps_; }

 private:
  struct Scratch {
    Decoded decoded;
    TransformScratch transform;
    PackScratch pack;
  };
  /// Decoded pixels, in a Scratch, and what becomes of them.
  struct Source {
    ImageView view;
    ImageRecord record;
  };
  PackOptions pack_options() const;
  DrawKey draw_key(SampleKey key) const;
  /// What becomes of a (height, width) image in epoch `key.epoch`.
  ImageRecord record_for(SampleKey key, int height, int width) const;
  std::vector<PolicyStep> policy_for(SampleKey key) const;
  std::string file_bytes(int64_t index) const;
  ImageHeader header_of(int64_t index, const std::string& bytes) const;
  Source source_in_cache(SampleKey key, Scratch& scratch) const;
  Source source_in_file(SampleKey key, const std::string& bytes, Scratch& scratch) const;
  // In image_dataset_staging.cpp.
  bool keeps_resampled() const;
  void pack_by_policy(SampleKey key, ImageRows& rows, int64_t row, Scratch& scratch) const;
  bool pack_resident(SampleKey key, ImageRecord& record) const;
  bool pack_file(SampleKey key, const std::string& bytes, ImageRows& rows, int64_t row) const;
  void pack_to_keep(SampleKey key, ImageRows& rows, int64_t row, Scratch& scratch) const;
  void pack_image(SampleKey key, ImageRows& rows, int64_t row, Scratch& scratch) const;

  ImageFolder folder_;
  ImageDatasetOptions options_;
  std::shared_ptr<FileStamps> stamps_;
  std::unique_ptr<ImageCache> cache_;
  std::unique_ptr<DeviceImageCache> device_cache_;
  /// By index the hash of a file that a device's decoder accepted, which holds as long as its bytes
  /// are the same; 0: none.
  mutable std::vector<std::atomic<uint64_t>> accepted_files_;
  mutable FreeList<Scratch> scratches_;  // one per thread that ever ran
};

/// Decodes file `index` of `folder` exactly, shrunk to options.short_side if that is above 0 and
/// smaller, and notes its content in `stamps`. Throws data naming the file.
Image read_image(const ImageFolder& folder, int64_t index, const PackOptions& options,
                 FileStamps& stamps);

}  // namespace whisker
