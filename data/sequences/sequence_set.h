// Sequences of any lengths in memory, with labels or targets, and batches of them: sequences along
// the second axis, shorter ones padded at the end.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct ForecastBases;

struct SequenceSet {
  int64_t features = 0;          ///< values per step; 0: tokens
  std::vector<int64_t> tokens;   ///< of all sequences
  std::vector<float> values;     ///< (steps of all sequences, features)
  std::vector<int64_t> starts;   ///< first step of each sequence; sequences may overlap
  std::vector<int64_t> lengths;  ///< steps of each, 1 at least
  std::vector<int64_t> labels;   ///< class of each; empty: none
  int64_t outputs = 0;           ///< targets of each
  std::vector<float> targets;    ///< (sequences, outputs)
  /// What targets are relative to, for regression (data/sequences/series.h).
  std::shared_ptr<const ForecastBases> bases = {};
  /// Hashes of the rows of the file that each window is made of and forecasts.
  std::vector<uint64_t> contents = {};
  /// Hashes of the target columns in the rows that each window forecasts and the 16 before them,
  /// which do not depend on the window's length.
  std::vector<uint64_t> hashes = {};

  int64_t size() const { return static_cast<int64_t>(starts.size()); }
  int64_t longest() const;
  /// Whether all have one length, so that a batch needs no lengths.
  bool even() const;
  void add_tokens(std::span<const int64_t> sequence);
  /// `sequence` is (steps, features).
  void add_values(std::span<const float> sequence);
  /// A hash of everything above but contents and hashes.
  std::string fingerprint() const;
};

/// The batch of sequences `indices`, padded to `steps`: inputs i64 (steps, N) or f32 (steps, N, F),
/// labels -1 where there are none, lengths unless the set is even.
Batch make_batch(const SequenceSet& set, std::span<const int64_t> indices, int64_t steps);

}  // namespace whisker
