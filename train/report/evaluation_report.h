// The page of `whisker evaluate --report`: a run's report without what only a run has.
#pragma once

#include "data/sequences/sequence_example.h"
#include "train/metrics/metrics.h"
#include "train/metrics/validation_examples.h"
#include "train/model/network.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct EvaluationRecord {
  const Network& network;
  const Metrics& metrics;
  std::string weights;                              ///< their file
  std::vector<std::string> data = {};               ///< names of what was measured on
  std::string date = {};                            ///< of local_time_text()
  ValidationExamples examples = {};                 ///< empty of a language model; without paths
  std::vector<std::string> paths = {};              ///< (n), of files to open, or "file:line"
  std::span<const SequenceExample> sequences = {};  ///< (n), texts or rows; empty of images
  size_t worst = 0;                                 ///< examples of the largest loss
  std::optional<int64_t> trained_on = {};           ///< examples that trained the network, if known
};

/// One HTML file without scripts, requests and folders of this machine. Images are as the network
/// sees them, beside the class-activation maps of the predicted class.
std::string evaluation_report(EvaluationRecord record);

/// Whether a file's content is such a page, unchanged.
bool is_evaluation_report(std::string_view content);

}  // namespace whisker
