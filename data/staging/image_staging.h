// Packing an image for upload: the pixels of nonzero weight go to pinned memory, and its record
// says where they are.
#pragma once

#include "core/image/image_record.h"
#include "data/staging/image_memory.h"
#include "data/transforms/resize.h"

namespace whisker {

/// The columns and rows of the source that `record` reads.
Rect pixels_read(const ImageRecord& record);
/// The record's rectangle in pixels of the whole image.
Rect part_read(const ImageRecord& record);

/// What pack_view() keeps between calls; one per thread.
struct PackScratch {
  Image resampled;
  ResizeScratch resize;
};

/// pack_pixels(), for a large image after resample_on_host(): fewer bytes then go to the device.
void pack_view(const ImageView& view, ImageRecord& record, ImageRows& rows, PackScratch& scratch);
/// Copies the pixels that `record` reads to `rows`, and writes to the record where they are.
void pack_pixels(const ImageView& view, ImageRecord& record, ImageRows& rows);
/// Copies all pixels to `rows`; returns where they start among the batch's bytes.
int64_t pack_whole(const Image& image, ImageRows& rows);
/// The source is the record's crop of an image `width` pixels wide that starts at `offset`.
void set_source(ImageRecord& record, int64_t offset, int width);

/// Resamples the record's source on the host, without flips: all of `out` is then the source, and
/// the device's resampling changes nothing. The device's result is the same, bit by bit.
void resample_on_host(const ImageView& view, ImageRecord& record, Image& out,
                      ResizeScratch& scratch);
/// What resample_on_host() does to the record alone.
void skip_resampling(ImageRecord& record);

}  // namespace whisker
