#include "data/staging/image_staging.h"

#include "core/image/image_arithmetic.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

struct Span {
  int first = 0;
  int end = 0;
};

Span samples_read(const ResizeAxis& axis, const ImageRecord& record) {
  const Resampling r = resampling_of(axis, record.interpolation, record.antialias);
  return {taps_of(r, 0).first, taps_of(r, axis.count - 1).last};
}

}  // namespace

Rect pixels_read(const ImageRecord& record) {
  const Span columns = samples_read(record.columns, record);
  const Span rows = samples_read(record.rows, record);
  return {columns.first, rows.first, columns.end - columns.first, rows.end - rows.first};
}

Rect part_read(const ImageRecord& record) {
  Rect part = pixels_read(record);
  part.left += record.crop.left;
  part.top += record.crop.top;
  return part;
}

void pack_view(const ImageView& view, ImageRecord& record, ImageRows& rows, PackScratch& scratch) {
  constexpr int64_t large_bytes = int64_t{1} << 20;
  const Rect read = pixels_read(record);
  const int64_t bytes = int64_t{3} * read.width * read.height;
  const int64_t resampled_bytes = int64_t{3} * record.columns.count * record.rows.count;
  if (bytes <= std::max(large_bytes, 4 * resampled_bytes)) return pack_pixels(view, record, rows);
  resample_on_host(view, record, scratch.resampled, scratch.resize);
  pack_pixels(ImageView(scratch.resampled), record, rows);
}

void pack_pixels(const ImageView& view, ImageRecord& record, ImageRows& rows) {
  const Rect read = pixels_read(record);
  const int64_t row_bytes = int64_t{3} * read.width;
  const ImageRows::Span span = rows.reserve(row_bytes * read.height);
  for (int y = 0; y < read.height; ++y) {
    std::memcpy(span.host + y * row_bytes, view.row(read.top + y) + ptrdiff_t{3} * read.left,
                static_cast<size_t>(row_bytes));
  }
  record.stride = row_bytes;
  record.offset = span.at - read.top * row_bytes - int64_t{3} * read.left;
}

int64_t pack_whole(const Image& image, ImageRows& rows) {
  const ImageRows::Span span = rows.reserve(std::ssize(image.rgb));
  std::ranges::copy(image.rgb, span.host);
  return span.at;
}

void set_source(ImageRecord& record, int64_t offset, int width) {
  record.stride = int64_t{3} * width;
  record.offset = offset + record.crop.top * record.stride + int64_t{3} * record.crop.left;
}

void skip_resampling(ImageRecord& record) {
  record.crop = {0, 0, record.columns.count, record.rows.count};
  for (ResizeAxis* axis : {&record.columns, &record.rows}) {
    const int count = axis->count;
    *axis = {count, 0, static_cast<double>(count), count, 0, count};
  }
}

void resample_on_host(const ImageView& view, ImageRecord& record, Image& out,
                      ResizeScratch& scratch) {
  ImageRecord unflipped = record;
  unflipped.flip_horizontal = unflipped.flip_vertical = false;
  resize(view, unflipped, out, scratch);
  skip_resampling(record);
}

}  // namespace whisker
