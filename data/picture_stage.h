// From a decoded picture to what a device needs of it: a record that says how it is resampled,
// augmented and normalised, and the pixels that weigh anything.
#pragma once

#include "core/picture_record.h"
#include "data/augment.h"
#include "data/picture_memory.h"
#include "data/preprocess.h"

namespace whisker {

/// The record that does what augment_picture() does to crop `cropped` of a picture. Source pixels
/// are those of the view; they are not placed yet. Throws usage for a box that is empty or leaves
/// the view.
PictureRecord picture_record(const CroppedView& cropped, const AugmentRecord& augment);

/// The record that does what apply() does to a whole (height, width) picture.
PictureRecord picture_record(const Preprocess& preprocess, int height, int width);

/// The columns and rows of the source that `record` reads.
Rect pixels_read(const PictureRecord& record);

/// What stage_view() keeps between calls; one per thread.
struct StageScratch {
  Picture resampled;
  ResizeScratch resize;
};

/// stage_pixels(), for a large picture after resample_on_host(): fewer bytes then go to the device.
void stage_view(const PictureView& view, PictureRecord& record, PictureRows& rows,
                StageScratch& scratch);
/// Copies the pixels that `record` reads into `rows`, and writes to the record where they are.
void stage_pixels(const PictureView& view, PictureRecord& record, PictureRows& rows);
/// Copies all pixels into `rows`; returns where they start among the batch's bytes.
int64_t stage_whole(const Picture& picture, PictureRows& rows);

/// Resamples on the host, without flips: `out` is then the record's source, and its resampling
/// changes nothing any more. The device's result is the same, bit by bit.
void resample_on_host(const PictureView& view, PictureRecord& record, Picture& out,
                      ResizeScratch& scratch);
/// What resample_on_host() does to the record alone.
void forget_resampling(PictureRecord& record);

}  // namespace whisker
