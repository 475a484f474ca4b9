// `data.test`: measured once, after training.
#pragma once

#include "data/sequences/sequence_example.h"
#include "train/config/config.h"
#include "train/metrics/metrics.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

struct TestResult {
  std::unique_ptr<Metrics> metrics;
  std::vector<std::string> bad;  ///< a line for each example that was skipped, and what was assumed
  std::vector<uint64_t> contents = {};  ///< of texts, rows and windows: see LabelledSequences
  std::vector<SequenceExample> examples = {};  ///< of texts and rows
};

/// The network in `weights` over config.data.test, computing in `compute`. Throws what reading
/// either throws.
TestResult measure_test_set(const Config& config, const std::filesystem::path& weights,
                            Device device, DType compute);

}  // namespace whisker
