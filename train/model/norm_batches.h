// What batch normalisation expects of the batches of a run.
#pragma once

#include "layers/builder/model_builder.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

/// How a run divides its training examples.
struct RunBatches {
  int64_t examples = 0;
  int64_t batch_size = 0;  ///< over all ranks
  bool drop_last = false;
  int world = 1;            ///< ranks
  bool sync_norms = false;  ///< statistics are those of all ranks' rows

  /// Rows of the smallest part of a batch that a norm normalises over: of the first batches and of
  /// an epoch's last one. 0: there is no such batch.
  int64_t fewest_rows() const;
  int64_t fewest_rows_of_last() const;
};

/// Whether a batch_norm of the network normalises with statistics of the batch in training.
bool has_batch_statistics(const Model& model);
/// The path of a batch_norm that one example leaves one value per channel in training; "" where
/// there is none.
std::string norm_of_one_value(const Model& model);

/// Throws usage when a batch leaves a batch_norm one value per channel, which has no variance.
/// Names a batch size that works. `examples`: their name in the message.
void check_norm_batches(const Model& model, const RunBatches& batches, std::string_view examples);
/// The largest batch size up to that of `batches` which check_norm_batches accepts; the given one
/// where there is none.
int64_t accepted_batch_size(const Model& model, RunBatches batches);

}  // namespace whisker
