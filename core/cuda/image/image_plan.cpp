#include "core/cuda/image/image_plan.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

int contrast_steps(const ImageRecord& record) {
  return static_cast<int>(
      std::count_if(record.jitter, record.jitter + record.jitter_steps,
                    [](const JitterStep& step) { return step.kind == JitterKind::contrast; }));
}

}  // namespace

ImagePlan plan_images(std::span<const ImageRecord> records,
                      std::span<kernels::PlannedImage> planned) {
  ImagePlan plan;
  for (size_t i = 0; i < records.size(); ++i) {
    const ImageRecord& record = records[i];
    const ResizeAxis& columns = record.columns;
    const ResizeAxis& rows = record.rows;
    const Resampling across = resampling_of(columns, record.interpolation, record.antialias);
    const Resampling down = resampling_of(rows, record.interpolation, record.antialias);
    kernels::PlannedImage& p = planned[i];
    p = {.record = record,
         .between = plan.between_bytes,
         .column_taps = most_taps(across),
         .row_taps = most_taps(down),
         .column_end = taps_of(across, columns.count - 1).last,
         .first_row = taps_of(down, 0).first};
    p.row_count = taps_of(down, rows.count - 1).last - p.first_row;
    p.weights = plan.weights;
    p.row_weights = p.weights + int64_t{1 + p.column_taps} * columns.count;
    plan.weights = p.row_weights + int64_t{1 + p.row_taps} * rows.count;
    plan.between_bytes += int64_t{3} * p.row_count * columns.count;
    plan.most_samples = std::max({plan.most_samples, columns.count, rows.count});
    plan.most_columns = std::max(plan.most_columns, columns.count);
    plan.most_rows = std::max(plan.most_rows, p.row_count);
    plan.contrast_steps = std::max(plan.contrast_steps, contrast_steps(record));
  }
  return plan;
}

}  // namespace whisker::cuda
