// Batches whose images are made on a device: a loader's threads decode, this copies and has the
// device crop, resample, augment and normalise, while it still computes on earlier batches.
#pragma once

#include "data/loader.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

struct DeviceLoaderOptions {
  Device device = cpu_device;
  DType dtype = DType::f32;  ///< of the images: f32, bf16 or f16
  int64_t channels = 0;  ///< of the images, zeros after the pictures' own; 0: no more than those
  /// To be shared by loaders that one thread uses in turn; null: one of its own.
  std::shared_ptr<PicturePipeline> pipeline = {};
};

class DeviceLoader final : public BatchSource {
 public:
  /// `options.pictures_for` is set here. Throws what Loader does.
  DeviceLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
               LoaderOptions options, DeviceLoaderOptions device);

  int64_t batches() const override { return loader_.batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override {
    loader_.start_epoch(epoch, first_batch);
  }
  /// Images on the device, labels in host memory.
  std::optional<Batch> next() override;
  void write_into(const Tensor& images) override { target_ = images; }
  LoaderStats stats() const override { return loader_.stats(); }
  /// Says once when pictures find no more room in a device cache.
  std::string take_note() override { return std::exchange(note_, {}); }
  const std::vector<BadSample>& bad_samples() const override { return loader_.bad_samples(); }

 private:
  Tensor images_for(int64_t rows) const;
  std::vector<PictureCopy> copies_to_keep(const PictureRows& rows, int64_t count);

  DeviceLoaderOptions device_;
  Shape sample_shape_;
  Loader loader_;
  Tensor target_;
  bool cache_full_ = false;
  std::string note_;
};

/// The loader for `device`: of finished values for one that computes in host memory, where the
/// loader's threads do all there is to do, else a DeviceLoader.
std::unique_ptr<BatchSource> make_loader(std::shared_ptr<const Dataset> dataset,
                                         std::shared_ptr<const Sampler> sampler,
                                         LoaderOptions options, DeviceLoaderOptions device);

}  // namespace whisker
