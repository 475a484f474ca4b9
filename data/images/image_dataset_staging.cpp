// The way of a dataset's images to a device: from its cache there, from a cache in host memory,
// or from the file. Whichever it is, the device's pixels are those that write() gives.
#include "core/io/hash.h"
#include "data/images/image_dataset.h"
#include "data/staging/jpeg_staging.h"

#include <utility>

namespace whisker {
// Without random crops every epoch resamples an image alike: the result is what a device keeps.
bool ImageDataset::keeps_resampled() const {
  return !options_.augment || !options_.augment->random_resized_crop;
}

int64_t ImageDataset::pack(SampleKey key, ImageRows& rows, int64_t row) const {
  rows.whole(row) = {};
  if (options_.augment && options_.augment->has_policy()) {
    std::unique_ptr<Scratch> scratch = scratches_.take_or_make();
    pack_by_policy(key, rows, row, *scratch);
    scratches_.give(std::move(scratch));
  } else if (!pack_resident(key, rows.record(row))) {
    std::unique_ptr<Scratch> scratch = scratches_.take_or_make();
    pack_image(key, rows, row, *scratch);
    scratches_.give(std::move(scratch));
  }
  return folder_.files[static_cast<size_t>(key.index)].label;
}

bool ImageDataset::pack_resident(SampleKey key, ImageRecord& record) const {
  const auto resident = device_cache_ ? device_cache_->find(key.index) : std::nullopt;
  if (!resident) return false;
  record = record_for(key, resident->height, resident->width);
  record.resident = true;
  if (keeps_resampled()) skip_resampling(record);
  const int width = keeps_resampled() ? record.crop.width : resident->width;
  set_source(record, reinterpret_cast<int64_t>(resident->memory), width);
  return true;
}

void ImageDataset::pack_image(SampleKey key, ImageRows& rows, int64_t row, Scratch& scratch) const {
  if (device_cache_ && !device_cache_->refused(key.index)) {
    return pack_to_keep(key, rows, row, scratch);
  }
  Source source;
  if (cache_) {
    source = source_in_cache(key, scratch);
  } else {
    const std::string bytes = file_bytes(key.index);
    if (row_for_decoder(rows, row) && pack_file(key, bytes, rows, row)) return;
    source = source_in_file(key, bytes, scratch);
  }
  rows.record(row) = source.record;
  pack_view(source.view, rows.record(row), rows, scratch.pack);
}

// Packs a file for the device to decode; false when it is the host's to do, or to refuse.
bool ImageDataset::pack_file(SampleKey key, const std::string& bytes, ImageRows& rows,
                             int64_t row) const {
  const ImageHeader header = header_of(key.index, bytes);
  if (header.orientation > 1) return false;
  rows.record(row) = record_for(key, header.height, header.width);
  const uint64_t hash = hash64(bytes);
  std::atomic<uint64_t>& accepted = accepted_files_[static_cast<size_t>(key.index)];
  const bool known = hash != 0 && accepted.load(std::memory_order_relaxed) == hash;
  if (!pack_jpeg({.bytes = bytes_of(bytes), .known = known, .header = header}, rows, row)) {
    return false;
  }
  accepted.store(hash, std::memory_order_relaxed);
  return true;
}

// The host resizes and applies the policy, the device does the rest.
void ImageDataset::pack_by_policy(SampleKey key, ImageRows& rows, int64_t row,
                                  Scratch& scratch) const {
  const auto [view, record] =
      cache_ ? source_in_cache(key, scratch) : source_in_file(key, file_bytes(key.index), scratch);
  rows.record(row) = record;
  const std::vector<PolicyStep> policy = policy_for(key);
  const Image& image = transform_by_policy(view, rows.record(row), options_.preprocess.output(),
                                           scratch.transform, policy);
  pack_pixels(ImageView(image), rows.record(row), rows);
}

// A whole image, as every epoch will need it.
void ImageDataset::pack_to_keep(SampleKey key, ImageRows& rows, int64_t row,
                                Scratch& scratch) const {
  const Image image = read_image(folder_, key.index, pack_options(), *stamps_);
  ImageRecord& record = rows.record(row);
  record = record_for(key, image.height, image.width);
  const Image* kept = &image;
  if (keeps_resampled()) {
    kept = &scratch.pack.resampled;
    resample_on_host(ImageView(image, record.crop), record, scratch.pack.resampled,
                     scratch.pack.resize);
  }
  const int64_t at = pack_whole(*kept, rows);
  set_source(record, at, kept->width);
  rows.whole(row) = {.cache = device_cache_.get(),
                     .index = key.index,
                     .at = at,
                     .bytes = std::ssize(kept->rgb),
                     .height = image.height,
                     .width = image.width};
}

}  // namespace whisker
