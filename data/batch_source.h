// What the training loop sees of the data: batches of an epoch in order, from any batch on, and how
// long it waited for them.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct LoaderStats {
  double wait_seconds = 0;  ///< next() had to wait (or, without workers, to work) this long
  double work_seconds = 0;  ///< reading, decoding and augmenting, summed over the threads
  int64_t samples = 0;      ///< delivered
  int64_t batches = 0;      ///< delivered
};

/// An unreadable example, and the one that stood in for it (-1: left out).
struct BadSample {
  int64_t index = 0;
  int64_t replacement = -1;
  std::string reason = {};
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Per epoch on this rank; -1 where nobody can know, as for a stream.
  virtual int64_t batches() const = 0;
  /// Begins `epoch` at its batch `first_batch`, dropping what was prepared of another. Workers
  /// begin at once, so a call before validation hides the next epoch's start.
  virtual void start_epoch(int64_t epoch, int64_t first_batch = 0) = 0;
  /// The next batch, or nothing at the epoch's end. Rethrows what went wrong in a worker when its
  /// batch is due; the epoch is over then.
  virtual std::optional<Batch> next() = 0;
  /// Where inputs of batches with as many rows may be written from now on, each over those of the
  /// one before, if this source makes them on that device. Undefined: in memory of each batch's
  /// own.
  virtual void write_into(const Tensor& /*inputs*/) {}
  /// The share of a batch's JPEG files that a device decodes, and what a resumed run sets it to:
  /// the share that the run had found best. Below 0: that is still being found out, or cannot be
  /// as no device could decode.
  virtual double jpeg_share() const { return -1; }
  virtual void set_jpeg_share(double /*share*/) {}
  /// Since construction. One thread uses a source; these are for the same one.
  virtual LoaderStats stats() const = 0;
  /// What a person should know of what happened since the last call, in a sentence; "" for nothing.
  virtual std::string take_note() { return {}; }
  /// Every bad example met in the batches delivered so far, once each, in order.
  virtual const std::vector<BadSample>& bad_samples() const = 0;
};

}  // namespace whisker
