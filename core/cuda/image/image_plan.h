// Where the intermediate results of a batch of images lie: arithmetic on the host.
#pragma once

#include "core/cuda/image/images.h"

#include <span>

namespace whisker::cuda {

/// What place_images() needs besides the records.
struct ImagePlan {
  int64_t weights = 0;  ///< i32 values
  int64_t between_bytes = 0;
  int most_samples = 0;
  int most_columns = 0;
  int most_rows = 0;
  int contrast_steps = 0;
};

/// Writes one planned image per record, and returns what they need in all.
ImagePlan plan_images(std::span<const ImageRecord> records,
                      std::span<kernels::PlannedImage> planned);

}  // namespace whisker::cuda
