// An image folder as a dataset: reads, decodes and augments (or only preprocesses) each picture
// straight into the batch's memory, with decoded pictures kept in memory or on disk if wanted.
#pragma once

#include "data/augment_sampler.h"
#include "data/dataset.h"
#include "data/decode.h"
#include "data/device_cache.h"
#include "data/image_folder.h"
#include "data/picture_cache.h"
#include "data/picture_stage.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

enum class CacheKind { none, memory, disk, device };

struct CacheOptions {
  CacheKind kind = CacheKind::none;
  /// For memory: what does not fit is decoded anew each time, with the same result. For device: of
  /// that device's memory; what does not fit there goes to as much memory of the host.
  uint64_t max_bytes = uint64_t{2} << 30;
  /// For device: which one. Only stage() finds pictures there.
  Device device = cpu_device;
  /// For disk: the packed file, made on construction when it is missing or of other data.
  std::filesystem::path file = {};
  /// Pictures are kept shrunk to this short side; 0: as decoded.
  int short_side = 0;
};

struct PictureDatasetOptions {
  Preprocess preprocess = {};
  /// Training augmentation; nothing: every picture exactly as evaluate and classify see it.
  std::optional<AugmentConfig> augment = {};
  uint64_t seed = 0;  ///< augmentation is keyed by (seed, epoch, index)
  int64_t max_pixels = default_max_pixels;
  /// Lets training crops be decoded scaled and in part. With a cache pictures are
  /// always decoded exactly, so that it does not matter which of them are cached.
  bool fast_decode = true;
  CacheOptions cache = {};
  int workers = -1;  ///< for making a disk cache; -1: auto
};

class PictureDataset final : public Dataset {
 public:
  PictureDataset(ImageFolder folder, PictureDatasetOptions options);
  ~PictureDataset() override;

  int64_t size() const override { return folder_.size(); }
  /// The picture in epoch 0.
  Sample get(int64_t index) const override;
  Sample sample(SampleKey key) const override;
  Shape sample_shape() const override;
  /// Throws data naming the file when it cannot be read as a picture.
  int64_t write(SampleKey key, std::span<float> image) const override;
  int64_t stage(SampleKey key, PictureRows& rows, int64_t row) const override;
  /// Null without a device cache.
  const DevicePictureCache* device_cache() const { return device_cache_.get(); }

  const ImageFolder& folder() const { return folder_; }
  const PictureDatasetOptions& options() const { return options_; }

 private:
  struct Scratch {
    Decoded decoded;
    AugmentScratch augment;
    PreprocessScratch preprocess;
    StageScratch stage;
  };
  std::unique_ptr<Scratch> take_scratch() const;
  void give_scratch(std::unique_ptr<Scratch> scratch) const;
  void write_picture(SampleKey key, std::span<float> image, Scratch& scratch) const;
  const Picture& cached_picture(int64_t index, Scratch& scratch) const;
  AugmentRecord draw(SampleKey key, int height, int width) const;
  std::string file_bytes(int64_t index) const;
  PictureHeader header_of(int64_t index, const std::string& bytes) const;
  /// Decodes file `key.index` into scratch.decoded; returns what was drawn for it, if anything is.
  std::optional<AugmentRecord> decode_file(SampleKey key, const std::string& bytes,
                                           Scratch& scratch) const;
  // In picture_dataset_stage.cpp.
  struct Wanted;
  Wanted want(SampleKey key, int height, int width) const;
  bool keeps_resampled() const;
  bool stage_resident(SampleKey key, PictureRecord& record) const;
  bool stage_file(SampleKey key, const std::string& bytes, PictureRows& rows, int64_t row) const;
  void stage_to_keep(SampleKey key, PictureRows& rows, int64_t row, Scratch& scratch) const;
  void stage_picture(SampleKey key, PictureRows& rows, int64_t row, Scratch& scratch) const;

  ImageFolder folder_;
  PictureDatasetOptions options_;
  std::unique_ptr<PictureCache> cache_;
  std::unique_ptr<DevicePictureCache> device_cache_;
  /// By index the hash of a file that a device took for decoding; what was found out about it holds
  /// as long as its bytes are the same. 0: none did.
  mutable std::vector<std::atomic<uint64_t>> taken_files_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> scratches_;  // one per thread that ever ran
};

/// Decodes file `index` of `folder` exactly, shrunk to `short_side` if that is above 0 and smaller.
/// Throws data naming the file.
Picture read_picture(const ImageFolder& folder, int64_t index, int64_t max_pixels,
                     int short_side = 0);

}  // namespace whisker
