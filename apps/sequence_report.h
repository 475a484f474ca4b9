// `whisker data check` and `data stats` of sequences, which a configuration describes.
#pragma once

#include "core/io/json.h"
#include "train/config.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace whisker {

struct SequenceReport {
  std::string described;                          ///< RunData::describe
  std::vector<std::string> bad;                   ///< "file:line: reason" of each row left out
  std::map<std::string, int64_t> per_class = {};  ///< training examples
  int64_t shortest = 0, longest = 0;              ///< steps
  double mean_length = 0;
  double padding = 0;         ///< share of an epoch's steps that are padding
  bool reads_tokens = false;  ///< what follows means something
  double unknown = 0;         ///< share of unknown tokens in the validation part
  int64_t also_in_train = 0;  ///< validation examples that are training examples, too
};

/// Reads everything that `config` names, with any number of bad rows.
SequenceReport report_sequences(Config config);

void write(JsonWriter& json, const SequenceReport& report);
/// The figures for people; with `check` only what is wrong.
std::string to_text(const SequenceReport& report, bool check);

}  // namespace whisker
