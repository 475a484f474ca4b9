// Batches whose images are made on a device: a loader's threads decode, this copies and has the
// device crop, resample, augment and normalise, while it still computes on earlier batches.
#pragma once

#include "data/decode_trial.h"
#include "data/loader.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct DeviceLoaderOptions {
  Device device = cpu_device;
  DType dtype = DType::f32;  ///< of the images: f32, bf16 or f16
  int64_t channels = 0;  ///< of the images, zeros after the pictures' own; 0: no more than those
  /// Finds the best LoaderOptions::jpeg_share by timing, on the first batches.
  bool find_jpeg_share = false;
  /// To be shared by loaders that one thread uses in turn; null: one of its own.
  std::shared_ptr<PicturePipeline> pipeline = {};
};

class DeviceLoader final : public BatchSource {
 public:
  /// `options.pictures_for` is set here. Throws what Loader does.
  DeviceLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
               LoaderOptions options, DeviceLoaderOptions device);

  int64_t batches() const override { return loader_.batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  /// Images on the device, labels in host memory.
  std::optional<Batch> next() override;
  void write_into(const Tensor& images) override { target_ = images; }
  LoaderStats stats() const override { return loader_.stats(); }
  /// Below 0 while it is being found.
  double jpeg_share() const override { return trial_ ? -1 : loader_.jpeg_share(); }
  /// Ends a search for it.
  void set_jpeg_share(double share) override;
  /// Says when pictures find no more room in a device cache, who decodes JPEG files after a search,
  /// that a decoder refuses files, and that it gets no more of them: once each.
  std::string take_note() override;
  const std::vector<BadSample>& bad_samples() const override { return loader_.bad_samples(); }

 private:
  Tensor images_for(int64_t rows) const;
  std::vector<PictureCopy> copies_to_keep(const PictureRows& rows, int64_t count);
  void follow_trial(int64_t pictures);
  void give_up_decoder();
  void drop_decoder();
  void add_note(const std::string& note);

  DeviceLoaderOptions device_;
  Shape sample_shape_;
  Loader loader_;
  Tensor target_;
  bool cache_full_ = false;
  std::shared_ptr<JpegDecoder> decoder_;  // null: none, or no longer
  bool refusal_noted_ = false;
  std::unique_ptr<DecodeTrial> trial_;  // while the best jpeg_share is searched
  DecodeTrial::Clock::time_point last_batch_;
  double waited_before_ = 0;
  std::string note_;
};

/// The loader for `device`: of finished values for one that computes in host memory, where the
/// loader's threads do all there is to do, else a DeviceLoader.
std::unique_ptr<BatchSource> make_loader(std::shared_ptr<const Dataset> dataset,
                                         std::shared_ptr<const Sampler> sampler,
                                         LoaderOptions options, DeviceLoaderOptions device);

}  // namespace whisker
