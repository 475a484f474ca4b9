// From a file's bytes to a row of the batch.
#include "data/images/image_dataset.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/text.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

/// Runs `body`, putting the file's name before what is wrong with its content.
template <class Body>
void name_file(const ImageFolder& folder, int64_t index, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    fail(ErrorKind::data, "{}: {}", printable(folder.file(index).string()), error.what());
  }
}

}  // namespace

Image read_image(const ImageFolder& folder, int64_t index, const PackOptions& options,
                 FileStamps& stamps) {
  const std::string bytes = read_file(folder.file(index), max_image_bytes, ErrorKind::data);
  stamps.note(index, bytes);
  Decoded decoded;
  name_file(folder, index, [&] {
    decode(bytes_of(bytes), {.max_pixels = options.max_pixels, .rules = options.rules}, decoded);
  });
  Image image = std::move(decoded.image);
  const int short_side = options.short_side;
  const int shorter = std::min(image.height, image.width);
  if (short_side <= 0 || shorter <= short_side) return image;
  const auto shrink = [&](int side) {
    return static_cast<int>((int64_t{side} * short_side + shorter / 2) / shorter);
  };
  const ImageView whole(image);
  const Box box{.x1 = static_cast<double>(image.width), .y1 = static_cast<double>(image.height)};
  Image small;
  ResizeScratch scratch;
  resize(whole, box, {.height = shrink(image.height), .width = shrink(image.width)}, small,
         scratch);
  return small;
}

ImageDataset::ImageDataset(ImageFolder folder, ImageDatasetOptions options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      stamps_(options_.stamps ? options_.stamps : std::make_shared<FileStamps>(folder_)),
      accepted_files_(static_cast<size_t>(folder_.size())) {
  options_.preprocess.check();
  if (options_.augment) options_.augment->check();
  const CacheOptions& cache = options_.cache;
  if (cache.short_side < 0) {
    fail(ErrorKind::usage, "data.cache: expected a short side of at least 0, got {}.",
         cache.short_side);
  }
  if (cache.kind == CacheKind::memory || cache.kind == CacheKind::device) {
    cache_ = memory_cache(size(), cache.max_bytes);
  }
  const bool policy = options_.augment && options_.augment->has_policy();  // the host's to apply
  if (cache.kind == CacheKind::device && !policy) {
    device_cache_ = std::make_unique<DeviceImageCache>(cache.device, size(), cache.max_bytes);
  }
  if (cache.kind == CacheKind::disk) {
    cache_ = disk_cache(folder_, cache.file, pack_options(), *stamps_);
  }
}

ImageDataset::~ImageDataset() = default;

PackOptions ImageDataset::pack_options() const {
  return {.max_pixels = options_.max_pixels,
          .rules = options_.preprocess.rules,
          .short_side = options_.cache.short_side,
          .workers = options_.workers};
}

Shape ImageDataset::sample_shape() const {
  const ImageSize size = options_.preprocess.output();
  return {size.height, size.width, options_.preprocess.channels};
}

Sample ImageDataset::get(int64_t index) const {
  return sample({.index = index});
}

Sample ImageDataset::sample(SampleKey key) const {
  Sample one{.input = empty(sample_shape())};
  one.label = write(key, one.input.data<float>());
  return one;
}

int64_t ImageDataset::write(SampleKey key, std::span<float> image) const {
  std::unique_ptr<Scratch> scratch = scratches_.take_or_make();
  const auto [view, record] = cache_ ? source_in_cache(key, *scratch)
                                     : source_in_file(key, file_bytes(key.index), *scratch);
  const Preprocess& preprocess = options_.preprocess;
  transform_image(view, record,
                  {.values = image, .size = preprocess.output(), .channels = preprocess.channels},
                  scratch->transform, policy_for(key));
  scratches_.give(std::move(scratch));
  return folder_.files[static_cast<size_t>(key.index)].label;
}

DrawKey ImageDataset::draw_key(SampleKey key) const {
  return {.seed = options_.seed,
          .epoch = static_cast<uint64_t>(key.epoch),
          .index = static_cast<uint64_t>(key.index)};
}

ImageRecord ImageDataset::record_for(SampleKey key, int height, int width) const {
  if (!options_.augment) return preprocess_record(options_.preprocess, height, width);
  return sample_augmentation(*options_.augment, options_.preprocess, draw_key(key), height, width);
}

std::vector<PolicyStep> ImageDataset::policy_for(SampleKey key) const {
  if (!options_.augment) return {};
  return sample_policy(*options_.augment, draw_key(key), options_.preprocess.output());
}

std::string ImageDataset::file_bytes(int64_t index) const {
  std::string bytes = read_file(folder_.file(index), max_image_bytes, ErrorKind::data);
  stamps_->note(index, bytes);
  return bytes;
}

std::string ImageDataset::take_note() const {
  return cache_ ? cache_->take_note() : std::string();
}

ImageHeader ImageDataset::header_of(int64_t index, const std::string& bytes) const {
  ImageHeader header;
  name_file(folder_, index, [&] {
    header = read_header(bytes_of(bytes), options_.max_pixels, options_.preprocess.rules);
  });
  return header;
}

ImageDataset::Source ImageDataset::source_in_cache(SampleKey key, Scratch& scratch) const {
  Image& image = scratch.decoded.image;
  if (!cache_->get(key.index, image)) {
    image = read_image(folder_, key.index, pack_options(), *stamps_);
    cache_->put(key.index, image);
  }
  const ImageRecord record = record_for(key, image.height, image.width);
  return {ImageView(image, record.crop), record};
}

ImageDataset::Source ImageDataset::source_in_file(SampleKey key, const std::string& bytes,
                                                  Scratch& scratch) const {
  const ImageHeader header = header_of(key.index, bytes);
  Source source{.view = {}, .record = record_for(key, header.height, header.width)};
  DecodeOptions how{.max_pixels = options_.max_pixels,
                    .rules = options_.preprocess.rules,
                    .part = part_read(source.record)};
  if (options_.augment && options_.fast_decode) {
    how.fast = {.crop = source.record.crop,
                .target_height = source.record.place.height,
                .target_width = source.record.place.width};
  }
  name_file(folder_, key.index, [&] { decode(bytes_of(bytes), how, scratch.decoded); });
  source.view = crop_source(scratch.decoded, source.record);
  return source;
}

}  // namespace whisker
