// The training loop's view of the data: an epoch's batches in order, from any batch on, and the
// time spent waiting for them.
#pragma once

#include "core/error.h"
#include "data/dataset.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct LoaderStats {
  double wait_seconds = 0;  ///< time in next() waiting (without workers: working)
  double work_seconds = 0;  ///< reading, decoding and augmenting, summed over the threads
  int64_t samples = 0;      ///< delivered
  int64_t batches = 0;      ///< delivered
};
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// An unreadable example, and the one that replaced it (-1: none).
struct BadSample {
  int64_t index = 0;
  int64_t replacement = -1;
  std::string reason = {};
};

/// Work that next() does before its first batch, for long: so many of so many are done.
struct Preparing {
  std::string_view what;  ///< "computing features"
  int64_t done = 0;
  int64_t all = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Number per epoch on this rank; -1 when unknown, as for a stream.
  virtual int64_t batches() const = 0;
  /// Begins `epoch` at its batch `first_batch` and drops prepared batches of another epoch. Workers
  /// begin at once, so a call before validation hides the next epoch's start.
  virtual void start_epoch(int64_t epoch, int64_t first_batch = 0) = 0;
  /// The next batch, or nothing at the epoch's end. Rethrows what went wrong in a worker when its
  /// batch is due; the epoch is over then.
  virtual std::optional<Batch> next() = 0;
  /// Memory for the inputs of batches with as many rows, each overwriting the one before, for
  /// sources that make inputs on its device. Undefined: each batch has its own memory.
  virtual void write_into(const Tensor& /*inputs*/) {}
  /// The fraction of a batch's JPEG files that a device decodes; a resumed run sets the one that
  /// it began with. Below 0: no device can decode.
  virtual double jpeg_share() const { return -1; }
  virtual void set_jpeg_share(double /*share*/) {}
  /// Since construction. One thread uses a source; these are for the same one.
  virtual LoaderStats stats() const = 0;
  /// A message for the user about events since the last call; "" for none.
  virtual std::string take_note() { return {}; }
  /// Receives such work: when it begins (none is done), goes on and ends (all are done).
  virtual void on_preparing(std::function<void(const Preparing&)> /*receive*/) {}
  /// Every bad example met in the batches delivered so far, once each, in order. None for sources
  /// that read all of their data before, or cannot replace an example.
  virtual const std::vector<BadSample>& bad_samples() const {
    static const std::vector<BadSample> none;
    return none;
  }
};

/// Batches of `batch_size` of `examples`.
inline int64_t count_batches(int64_t examples, int64_t batch_size, bool drop_last) {
  return (drop_last ? examples : examples + batch_size - 1) / batch_size;
}

/// Throws usage, naming `what`, unless an epoch of `batches` may start there.
inline void check_start(std::string_view what, int64_t epoch, int64_t first_batch,
                        int64_t batches) {
  if (epoch >= 0 && first_batch >= 0 && first_batch <= batches) return;
  fail(ErrorKind::usage, "{}: expected epoch >= 0 and a first batch from 0 to {}, got {}, {}.",
       what, batches, epoch, first_batch);
}

}  // namespace whisker
