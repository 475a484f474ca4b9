// What `whisker evaluate` prints: the metrics, and the inputs that could not be read.
#pragma once

#include "core/io/json.h"
#include "data/files/file_walk.h"
#include "data/sequences/sequence_example.h"
#include "train/metrics/metrics.h"
#include "train/metrics/temperature_fit.h"
#include "train/metrics/validation_examples.h"
#include "train/model/network.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Unreadable inputs: reported on stderr at once and counted in the result.
class Unreadable {
 public:
  void add(const std::string& path, const std::string& reason);
  bool any() const { return !files_.empty(); }
  size_t count() const { return files_.size(); }
  void write(JsonWriter& json) const;

 private:
  std::vector<SkippedFile> files_;
};

/// What was measured.
struct Measured {
  const Metrics& metrics;
  const Unreadable& unreadable;
  const ValidationExamples& examples;       ///< none of a language model
  std::optional<int64_t> trained_on = {};   ///< examples that trained the network, if known
  std::optional<TemperatureFit> fit = {};   ///< of --calibrate
  std::span<const uint64_t> contents = {};  ///< hashes of the examples, for a calibrated network
  std::vector<std::string> paths = {};      ///< (n), where each is written, as EvaluationRecord
  std::span<const SequenceExample> sequences = {};  ///< texts or rows, as many as paths
};

/// Writes it to stdout; returns the exit code.
int print_metrics(const Network& network, const Measured& measured, bool as_json);

}  // namespace whisker
