// Where the intermediate results of a batch of pictures lie: arithmetic on the host.
#pragma once

#include "core/cuda/pictures/pictures.h"

#include <span>

namespace whisker::cuda {

/// What place_pictures() needs besides the records.
struct PicturePlan {
  int64_t weights = 0;  ///< i32 values
  int64_t between_bytes = 0;
  int most_samples = 0;
  int most_columns = 0;
  int most_rows = 0;
  int contrast_steps = 0;
};

/// Writes one planned picture per record, and returns what they need in all.
PicturePlan plan_pictures(std::span<const PictureRecord> records,
                          std::span<kernels::PlannedPicture> planned);

}  // namespace whisker::cuda
