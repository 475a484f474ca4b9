// The way of a dataset's pictures to a device: from its cache there, from a cache in host memory,
// or from the file. Whichever it is, the device's pixels are those that write() gives.
#include "core/io/hash.h"
#include "data/jpeg_stage.h"
#include "data/picture_dataset.h"

#include <utility>

namespace whisker {

/// What is to become of a whole picture: a record whose source is rectangle `view` of it.
struct PictureDataset::Wanted {
  PictureRecord record;
  Rect view;
};

PictureDataset::Wanted PictureDataset::want(SampleKey key, int height, int width) const {
  if (!options_.augment) {
    return {picture_record(options_.preprocess, height, width), {0, 0, width, height}};
  }
  const AugmentRecord drawn = draw(key, height, width);
  CroppedView cropped;
  cropped.view.height = drawn.crop.height;
  cropped.view.width = drawn.crop.width;
  cropped.box = {0, 0, static_cast<double>(drawn.crop.width),
                 static_cast<double>(drawn.crop.height)};
  return {picture_record(cropped, drawn), drawn.crop};
}

// Without random crops every epoch resamples a picture alike: the result is what a device keeps.
bool PictureDataset::keeps_resampled() const {
  return !options_.augment || !options_.augment->random_resized_crop;
}

int64_t PictureDataset::stage(SampleKey key, PictureRows& rows, int64_t row) const {
  rows.whole(row) = {};
  if (!stage_resident(key, rows.record(row))) {
    std::unique_ptr<Scratch> scratch = take_scratch();
    stage_picture(key, rows, row, *scratch);
    give_scratch(std::move(scratch));
  }
  return folder_.files[static_cast<size_t>(key.index)].label;
}

bool PictureDataset::stage_resident(SampleKey key, PictureRecord& record) const {
  const auto resident = device_cache_ ? device_cache_->find(key.index) : std::nullopt;
  if (!resident) return false;
  Wanted wanted = want(key, resident->height, resident->width);
  record = wanted.record;
  record.resident = true;
  record.offset = reinterpret_cast<int64_t>(resident->memory);
  if (keeps_resampled()) {
    forget_resampling(record);
    record.stride = int64_t{3} * record.columns.count;
  } else {
    record.stride = int64_t{3} * resident->width;
    record.offset += wanted.view.top * record.stride + int64_t{3} * wanted.view.left;
  }
  return true;
}

void PictureDataset::stage_picture(SampleKey key, PictureRows& rows, int64_t row,
                                   Scratch& scratch) const {
  if (device_cache_ && !device_cache_->refused(key.index)) {
    return stage_to_keep(key, rows, row, scratch);
  }
  PictureRecord& record = rows.record(row);
  if (cache_) {
    const Picture& picture = cached_picture(key.index, scratch);
    const Wanted wanted = want(key, picture.height, picture.width);
    record = wanted.record;
    return stage_view(PictureView(picture, wanted.view), record, rows, scratch.stage);
  }
  const std::string bytes = file_bytes(key.index);
  if (row_for_decoder(rows, row) && stage_file(key, bytes, rows, row)) return;
  const std::optional<AugmentRecord> drawn = decode_file(key, bytes, scratch);
  const Decoded& decoded = scratch.decoded;
  if (!drawn) {
    record = picture_record(options_.preprocess, decoded.full_height, decoded.full_width);
    return stage_view(PictureView(decoded.picture), record, rows, scratch.stage);
  }
  const CroppedView cropped = crop_view(decoded, drawn->crop);
  record = picture_record(cropped, *drawn);
  stage_view(cropped.view, record, rows, scratch.stage);
}

// For the device to decode; false when it is the host's to do, or to refuse.
bool PictureDataset::stage_file(SampleKey key, const std::string& bytes, PictureRows& rows,
                                int64_t row) const {
  const PictureHeader header = header_of(key.index, bytes);
  const Wanted wanted = want(key, header.height, header.width);
  const uint64_t hash = hash64(bytes);
  std::atomic<uint64_t>& taken = taken_files_[static_cast<size_t>(key.index)];
  const JpegToStage jpeg{.file = bytes_of(bytes),
                         .known = hash != 0 && taken.load(std::memory_order_relaxed) == hash,
                         .header = header,
                         .crop = wanted.view};
  if (!stage_jpeg(jpeg, rows, row)) return false;
  taken.store(hash, std::memory_order_relaxed);
  rows.record(row) = wanted.record;
  return true;
}

// A whole picture, as every epoch will need it.
void PictureDataset::stage_to_keep(SampleKey key, PictureRows& rows, int64_t row,
                                   Scratch& scratch) const {
  scratch.decoded.picture =
      read_picture(folder_, key.index, options_.max_pixels, options_.cache.short_side);
  const Picture& picture = scratch.decoded.picture;
  const Wanted wanted = want(key, picture.height, picture.width);
  PictureRecord& record = rows.record(row);
  record = wanted.record;
  Rect view = wanted.view;
  const Picture* kept = &picture;
  if (keeps_resampled()) {
    resample_on_host(PictureView(picture, view), record, scratch.stage.resampled,
                     scratch.stage.resize);
    kept = &scratch.stage.resampled;
    view.left = view.top = 0;
  }
  const int64_t at = stage_whole(*kept, rows);
  record.stride = int64_t{3} * kept->width;
  record.offset = at + view.top * record.stride + int64_t{3} * view.left;
  rows.whole(row) = {.cache = device_cache_.get(),
                     .index = key.index,
                     .at = at,
                     .bytes = std::ssize(kept->rgb),
                     .height = picture.height,
                     .width = picture.width};
}

}  // namespace whisker
