// Passes each batch of the loader to the device's pipeline.
#include "data/loader/device_loader.h"

#include "core/backend/backend.h"
#include "core/error.h"
#include "data/staging/device_cache.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

LoaderOptions packed_for(LoaderOptions options, Device device) {
  options.images_for = device;
  return options;
}

}  // namespace

DeviceLoader::DeviceLoader(std::shared_ptr<const Dataset> dataset,
                           std::shared_ptr<const Sampler> sampler, LoaderOptions options,
                           DeviceLoaderOptions device)
    : device_(std::move(device)),
      sample_shape_(dataset->sample_shape()),
      loader_(dataset, std::move(sampler), packed_for(options, device_.device)) {
  if (!device_.pipeline) device_.pipeline = backend_of(device_.device).make_image_pipeline();
  if (!device_.pipeline) {
    fail(ErrorKind::usage,
         "loader: {} does not finish images. Use a Loader, as make_loader() does.", device_.device);
  }
}

Tensor DeviceLoader::images_for(int64_t rows) const {
  if (target_.defined() && target_.extent(0) == rows) return target_;
  const MemoryScope scope(MemoryCategory::input);
  return empty({rows, sample_shape_[0], sample_shape_[1], sample_shape_[2]},
               {.dtype = device_.dtype, .device = device_.device});
}

// Images decoded whole for a cache stay on the device as long as the cache has space.
std::vector<ImageCopy> DeviceLoader::copies_to_keep(const ImageRows& rows, int64_t count) {
  std::vector<ImageCopy> copies;
  for (int64_t row = 0; row < count; ++row) {
    const WholeImage& whole = rows.whole(row);
    if (!whole.cache) continue;
    uint8_t* const target = whole.cache->keep(whole.index, whole.height, whole.width, whole.bytes);
    if (target) {
      copies.push_back({.at = whole.at, .bytes = whole.bytes, .target = target});
    } else if (!cache_full_ && whole.cache->refused(whole.index)) {
      cache_full_ = true;
      add_note(
          fmt::format("data.cache: {} holds {} of the images; the others are kept in host memory, "
                      "up to data.cache_limit_mib",
                      device_.device, whole.cache->kept()));
    }
  }
  return copies;
}

void DeviceLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  if (loader_.jpeg_share() == 0) loader_.decoding().drop();  // also after a resume's choice
  loader_.start_epoch(epoch, first_batch);
}

void DeviceLoader::set_jpeg_share(double share) {
  if (!loader_.decoding().active() && share > 0) {
    add_note(
        fmt::format("data.gpu_decode: the GPU decoded {:.0f} % of this run's JPEG files; here "
                    "the CPU decodes them all",
                    100 * share));
  }
  loader_.set_jpeg_share(share);
}

void DeviceLoader::add_note(const std::string& note) {
  if (!note.empty()) note_ += (note_.empty() ? "" : "\n  ") + note;
}

std::string DeviceLoader::take_note() {
  add_note(loader_.decoding().take_note());
  add_note(loader_.take_note());
  return std::exchange(note_, {});
}

std::optional<Batch> DeviceLoader::next() {
  std::optional<Batch> batch = loader_.next();
  if (!batch || batch->size() == 0) return batch;
  ImageBatch images = batch->images->batch(batch->size());
  images.copies = copies_to_keep(*batch->images, batch->size());
  images.channels = static_cast<int>(sample_shape_[2]);
  batch->inputs = images_for(batch->size());
  device_.pipeline->run(images, std::move(batch->images), batch->inputs);
  batch->images.reset();
  return batch;
}

std::unique_ptr<BatchSource> make_loader(std::shared_ptr<const Dataset> dataset,
                                         std::shared_ptr<const Sampler> sampler,
                                         LoaderOptions options, DeviceLoaderOptions device) {
  if (device.device.kind != DeviceKind::cuda) {
    return std::make_unique<Loader>(std::move(dataset), std::move(sampler), std::move(options));
  }
  return std::make_unique<DeviceLoader>(std::move(dataset), std::move(sampler), std::move(options),
                                        std::move(device));
}

}  // namespace whisker
