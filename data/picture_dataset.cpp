// From a file's bytes to a row of the batch.
#include "data/picture_dataset.h"

#include "core/error.h"
#include "core/io/file.h"

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

Picture read_picture(const ImageFolder& folder, int64_t index, int64_t max_pixels, int short_side) {
  const std::string bytes = read_file(folder.file(index), max_picture_bytes, ErrorKind::data);
  Picture picture;
  name_file(folder, index, [&] { picture = decode(bytes_of(bytes), max_pixels); });
  const int shorter = std::min(picture.height, picture.width);
  if (short_side <= 0 || shorter <= short_side) return picture;
  const auto shrink = [&](int side) {
    return static_cast<int>((int64_t{side} * short_side + shorter / 2) / shorter);
  };
  const PictureView whole(picture);
  const Box box{.x1 = static_cast<double>(picture.width),
                .y1 = static_cast<double>(picture.height)};
  Picture small;
  ResizeScratch scratch;
  resize(whole, box, {.height = shrink(picture.height), .width = shrink(picture.width)}, small,
         scratch);
  return small;
}

PictureDataset::PictureDataset(ImageFolder folder, PictureDatasetOptions options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      taken_files_(static_cast<size_t>(folder_.size())) {
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
  if (cache.kind == CacheKind::device) {
    device_cache_ = std::make_unique<DevicePictureCache>(cache.device, size(), cache.max_bytes);
  }
  if (cache.kind == CacheKind::disk) {
    const PackOptions pack{.max_pixels = options_.max_pixels,
                           .short_side = cache.short_side,
                           .workers = options_.workers};
    cache_ = disk_cache(folder_, cache.file, pack);
  }
}

PictureDataset::~PictureDataset() = default;

Shape PictureDataset::sample_shape() const {
  const PictureSize size = options_.preprocess.output();
  return {size.height, size.width, options_.preprocess.channels};
}

Sample PictureDataset::get(int64_t index) const {
  return sample({.index = index});
}

Sample PictureDataset::sample(SampleKey key) const {
  Sample one{.input = empty(sample_shape())};
  one.label = write(key, one.input.data<float>());
  return one;
}

int64_t PictureDataset::write(SampleKey key, std::span<float> image) const {
  std::unique_ptr<Scratch> scratch = take_scratch();
  write_picture(key, image, *scratch);
  give_scratch(std::move(scratch));
  return folder_.files[static_cast<size_t>(key.index)].label;
}

std::unique_ptr<PictureDataset::Scratch> PictureDataset::take_scratch() const {
  const std::lock_guard lock(mutex_);
  if (scratches_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(scratches_.back());
  scratches_.pop_back();
  return scratch;
}

void PictureDataset::give_scratch(std::unique_ptr<Scratch> scratch) const {
  const std::lock_guard lock(mutex_);
  scratches_.push_back(std::move(scratch));
}

const Picture& PictureDataset::cached_picture(int64_t index, Scratch& scratch) const {
  Picture& picture = scratch.decoded.picture;
  if (!cache_->get(index, picture)) {
    picture = read_picture(folder_, index, options_.max_pixels, options_.cache.short_side);
    cache_->put(index, picture);
  }
  return picture;
}

AugmentRecord PictureDataset::draw(SampleKey key, int height, int width) const {
  const DrawKey draw{.seed = options_.seed,
                     .epoch = static_cast<uint64_t>(key.epoch),
                     .index = static_cast<uint64_t>(key.index)};
  return sample_augmentation(*options_.augment, options_.preprocess, draw, height, width);
}

std::string PictureDataset::file_bytes(int64_t index) const {
  return read_file(folder_.file(index), max_picture_bytes, ErrorKind::data);
}

PictureHeader PictureDataset::header_of(int64_t index, const std::string& bytes) const {
  PictureHeader header;
  name_file(folder_, index, [&] { header = read_header(bytes_of(bytes), options_.max_pixels); });
  return header;
}

std::optional<AugmentRecord> PictureDataset::decode_file(SampleKey key, const std::string& bytes,
                                                         Scratch& scratch) const {
  std::optional<AugmentRecord> record;
  name_file(folder_, key.index, [&] {
    DecodeOptions how{.max_pixels = options_.max_pixels, .fast = {}};
    if (options_.augment) {
      const PictureHeader header = read_header(bytes_of(bytes), options_.max_pixels);
      record = draw(key, header.height, header.width);
    }
    if (record && options_.fast_decode) {
      how.fast = {.crop = record->crop,
                  .target_height = record->place ? record->place->height : record->height,
                  .target_width = record->place ? record->place->width : record->width};
    }
    decode(bytes_of(bytes), how, scratch.decoded);
  });
  return record;
}

void PictureDataset::write_picture(SampleKey key, std::span<float> image, Scratch& scratch) const {
  const Preprocess& preprocess = options_.preprocess;
  if (cache_) {
    const Picture& picture = cached_picture(key.index, scratch);
    if (!options_.augment) return apply(preprocess, picture, image, scratch.preprocess);
    const AugmentRecord record = draw(key, picture.height, picture.width);
    return augment_picture(picture, record, image, scratch.augment);
  }
  const std::optional<AugmentRecord> record = decode_file(key, file_bytes(key.index), scratch);
  if (!record) return apply(preprocess, scratch.decoded.picture, image, scratch.preprocess);
  augment_picture(scratch.decoded, *record, image, scratch.augment);
}

}  // namespace whisker
