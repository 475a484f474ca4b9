// Records in terms of the source's pixels, and the copy of those that count.
#include "data/picture_stage.h"

#include "core/error.h"
#include "core/picture_arithmetic.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

void set_normalisation(PictureRecord& record, const Normalisation& normalisation) {
  for (size_t c = 0; c < 3; ++c) {
    record.factor[c] = normalisation.factor(c);
    record.shift[c] = normalisation.offset(c);
  }
}

struct Span {
  int first = 0;
  int end = 0;
};

Span samples_read(const ResizeAxis& axis, const PictureRecord& record) {
  const Resampling r = resampling_of(axis, record.interpolation, record.antialias);
  return {taps_of(r, 0).first, taps_of(r, axis.count - 1).last};
}

}  // namespace

PictureRecord picture_record(const CroppedView& cropped, const AugmentRecord& augment) {
  const auto& [view, box] = cropped;
  const bool inside = box.x0 >= 0 && box.y0 >= 0 && box.x1 <= view.width && box.y1 <= view.height &&
                      box.x0 < box.x1 && box.y0 < box.y1;
  if (!inside) {
    fail(ErrorKind::usage, "augment: box ({}, {}, {}, {}) is empty or leaves the {}x{} picture",
         box.x0, box.y0, box.x1, box.y1, view.width, view.height);
  }
  PictureRecord record;
  record.place = augment.place.value_or(Rect{0, 0, augment.width, augment.height});
  Rect& place = record.place;
  if (augment.flip_horizontal) place.left = augment.width - place.left - place.width;
  if (augment.flip_vertical) place.top = augment.height - place.top - place.height;
  record.columns = {view.width, box.x0, box.x1, place.width, 0, place.width};
  record.rows = {view.height, box.y0, box.y1, place.height, 0, place.height};
  record.interpolation = augment.interpolation;
  record.antialias = augment.antialias;
  record.flip_horizontal = augment.flip_horizontal;
  record.flip_vertical = augment.flip_vertical;
  record.warps = augment.warp.has_value();
  if (augment.warp) std::ranges::copy(*augment.warp, record.warp);
  record.fill_mode = augment.fill_mode;
  record.fill_value = static_cast<float>(augment.fill_value);
  record.jitter_steps = augment.jitter_steps;
  std::ranges::copy(augment.jitter, record.jitter);
  set_normalisation(record, augment.normalisation);
  record.erase = augment.erase.value_or(Rect{});
  for (size_t c = 0; c < 3; ++c) {
    record.erase_value[c] = static_cast<float>(augment.erase_value[c]);
  }
  return record;
}

PictureRecord picture_record(const Preprocess& preprocess, int height, int width) {
  const PictureSize output = preprocess.output();
  const PictureSize resized = resized_extents(preprocess, height, width);
  const int left = centered_offset(resized.width, output.width);
  const int top = centered_offset(resized.height, output.height);
  PictureRecord record;
  record.interpolation = preprocess.interpolation;
  record.antialias = preprocess.antialias;
  record.columns = {width, 0, static_cast<double>(width), resized.width, left, output.width};
  record.rows = {height, 0, static_cast<double>(height), resized.height, top, output.height};
  record.place = {0, 0, output.width, output.height};
  if (preprocess.resize_mode == ResizeMode::letterbox) {
    record.columns.first = record.rows.first = 0;
    record.columns.count = resized.width;
    record.rows.count = resized.height;
    record.place = {-left, -top, resized.width, resized.height};
  }
  set_normalisation(record, preprocess.normalisation);
  return record;
}

Rect pixels_read(const PictureRecord& record) {
  const Span columns = samples_read(record.columns, record);
  const Span rows = samples_read(record.rows, record);
  return {columns.first, rows.first, columns.end - columns.first, rows.end - rows.first};
}

void stage_view(const PictureView& view, PictureRecord& record, PictureRows& rows,
                StageScratch& scratch) {
  constexpr int64_t large_bytes = int64_t{1} << 20;
  const Rect read = pixels_read(record);
  const int64_t bytes = int64_t{3} * read.width * read.height;
  const int64_t resampled_bytes = int64_t{3} * record.columns.count * record.rows.count;
  if (bytes <= std::max(large_bytes, 4 * resampled_bytes)) return stage_pixels(view, record, rows);
  resample_on_host(view, record, scratch.resampled, scratch.resize);
  stage_pixels(PictureView(scratch.resampled), record, rows);
}

void stage_pixels(const PictureView& view, PictureRecord& record, PictureRows& rows) {
  const Rect read = pixels_read(record);
  const int64_t row_bytes = int64_t{3} * read.width;
  const PictureRows::Room room = rows.reserve(row_bytes * read.height);
  for (int y = 0; y < read.height; ++y) {
    std::memcpy(room.host + y * row_bytes, view.row(read.top + y) + ptrdiff_t{3} * read.left,
                static_cast<size_t>(row_bytes));
  }
  record.stride = row_bytes;
  record.offset = room.at - read.top * row_bytes - int64_t{3} * read.left;
}

int64_t stage_whole(const Picture& picture, PictureRows& rows) {
  const PictureRows::Room room = rows.reserve(std::ssize(picture.rgb));
  std::ranges::copy(picture.rgb, room.host);
  return room.at;
}

void forget_resampling(PictureRecord& record) {
  for (ResizeAxis* axis : {&record.columns, &record.rows}) {
    const int count = axis->count;
    *axis = {count, 0, static_cast<double>(count), count, 0, count};
  }
}

void resample_on_host(const PictureView& view, PictureRecord& record, Picture& out,
                      ResizeScratch& scratch) {
  const ResizeAxis& columns = record.columns;
  const ResizeAxis& rows = record.rows;
  resize(view, {columns.from, rows.from, columns.to, rows.to},
         {.height = rows.out,
          .width = columns.out,
          .interpolation = record.interpolation,
          .antialias = record.antialias,
          .window = Rect{columns.first, rows.first, columns.count, rows.count}},
         out, scratch);
  forget_resampling(record);
}

}  // namespace whisker
