// `whisker data check` and `data stats` of sequences, which a configuration describes.
#pragma once

#include "core/io/json.h"
#include "train/config/config.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace whisker {

struct SequenceReport {
  std::string described;                          ///< RunData::describe
  std::vector<std::string> bad;                   ///< "file:line: reason" of each skipped row
  std::vector<std::string> notes = {};            ///< how the data were read
  std::map<std::string, int64_t> per_class = {};  ///< training examples
  int64_t shortest = 0, longest = 0;              ///< steps
  double mean_length = 0;
  double padding = 0;         ///< fraction of an epoch's steps that are padding
  bool reads_tokens = false;  ///< the fields below are set
  double unknown = 0;         ///< fraction of unknown tokens in the validation part
  int64_t also_in_train = 0;  ///< validation examples that are also training examples
};

/// Reads the data of `config`, with any number of bad rows.
SequenceReport report_sequences(Config config);

void write(JsonWriter& json, const SequenceReport& report);
/// The report as text; with `check` only the problems.
std::string to_text(const SequenceReport& report, bool check);

}  // namespace whisker
