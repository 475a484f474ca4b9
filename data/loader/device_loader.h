// Batches whose images are finished on a device: worker threads decode, then the device crops,
// resamples, augments and normalises while it computes on earlier batches.
#pragma once

#include "data/loader/loader.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct DeviceLoaderOptions {
  Device device = cpu_device;
  DType dtype = DType::f32;  ///< of the images: f32, bf16 or f16
  /// May be shared by loaders that one thread uses in turn; null: an own one.
  std::shared_ptr<ImagePipeline> pipeline = {};
};

class DeviceLoader final : public BatchSource {
 public:
  /// `options.images_for` is set here. Throws what Loader does, and usage for a device without
  /// ImagePipeline.
  DeviceLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
               LoaderOptions options, DeviceLoaderOptions device);

  int64_t batches() const override { return loader_.batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  /// Images on the device, labels in host memory.
  std::optional<Batch> next() override;
  void write_into(const Tensor& images) override { target_ = images; }
  LoaderStats stats() const override { return loader_.stats(); }
  double jpeg_share() const override { return loader_.jpeg_share(); }
  void set_jpeg_share(double share) override;
  /// Reports, once each: a full device cache, a decoder that is missing or refuses files, and the
  /// end of its use.
  std::string take_note() override;
  const std::vector<BadSample>& bad_samples() const override { return loader_.bad_samples(); }

 private:
  Tensor images_for(int64_t rows) const;
  std::vector<ImageCopy> copies_to_keep(const ImageRows& rows, int64_t count);
  void add_note(const std::string& note);

  DeviceLoaderOptions device_;
  Shape sample_shape_;
  Loader loader_;
  Tensor target_;
  bool cache_full_ = false;
  std::string note_;
};

/// A Loader when `device` computes in host memory, else a DeviceLoader.
std::unique_ptr<BatchSource> make_loader(std::shared_ptr<const Dataset> dataset,
                                         std::shared_ptr<const Sampler> sampler,
                                         LoaderOptions options, DeviceLoaderOptions device);

}  // namespace whisker
