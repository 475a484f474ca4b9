// What batch_norm and the operators that fuse it with others check and compute alike.
#pragma once

#include "core/backend/backend.h"
#include "core/backend/running_statistics.h"
#include "core/ops/ops.h"

namespace whisker {

/// f32, f64 for x of f64.
DType statistics_dtype(DType x);
/// Throws usage, naming what does not fit.
BatchNormGeometry batch_norm_geometry(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                      const BatchNormOptions& options, const Tensor& residual);
/// Undefined tensors where `state` has nothing pending. Throws usage for extents other than x's.
RunningStatistics running_statistics(const BatchNormState& state, const BatchNormOptions& options,
                                     const Tensor& x);
/// Throws usage where sums are defined and not those of an x like this.
void check_sums(const Tensor& sums, const Tensor& x);
/// Throws usage where x has too few rows for statistics, or the momentum is none.
void check_training(const BatchNormGeometry& geometry, const BatchNormOptions& options,
                    const Tensor& x);
/// What a batch_norm computes in training; statistics are (C).
struct NormalisedBatch {
  Tensor y, mean, inv_std;
};
/// The forward pass of training, without a record of it; the pending statistics are written.
NormalisedBatch normalise_batch(const BatchNormGeometry& geometry, const Tensor& x,
                                const BatchNormOperands& norm);
/// Tells the version checks that the pending statistics were written.
void note_pending(const RunningStatistics& running);

}  // namespace whisker
