// What the page of `whisker data check --report` shows of sequences.
#pragma once

#include "apps/terminal/sequence_report.h"
#include "train/data/run_data.h"

#include <cstdint>
#include <span>

namespace whisker {

struct ReadSequences {
  const Config& config;                               ///< resolved
  const RunData& data;                                ///< with KeepExamples::yes
  std::span<const int64_t> train_labels, val_labels;  ///< by the index in batches
};

/// All fields but `lengths`.
void add_details(const ReadSequences& read, SequenceDetails& details);

}  // namespace whisker
