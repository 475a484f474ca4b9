// `whisker data check` and `data stats` of sequences, which a configuration describes.
#pragma once

#include "core/draw/chart.h"
#include "core/io/json.h"
#include "train/config/config.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// What only a page shows.
struct SequenceDetails {
  struct Example {
    std::string place, shown, of_class = {};
    bool in_val = false;
  };
  struct Copies {
    std::vector<Example> some;  ///< one of each part and class before others
    int64_t count = 0;          ///< all
  };
  struct Column {
    std::string name, part;  ///< "training" or "validation"
    int64_t values = 0, missing = 0;
    double least = 0, mean = 0, most = 0, deviation = 0;
  };
  std::string of;  ///< "texts", "rows", "windows" or "tokens"
  std::map<std::string, int64_t> val_per_class = {};
  std::vector<int64_t> lengths = {};  ///< of the training examples; not of windows
  std::map<std::string, std::vector<Example>> examples = {};  ///< some, by class; of tokens of ""
  std::vector<Copies> copies = {};  ///< groups; across splits and classes come first
  int64_t groups = 0;               ///< of copies, all
  int64_t copies_across_splits = 0, copies_across_classes = 0;
  std::vector<Column> columns = {};                             ///< of rows and series
  std::map<std::string, std::vector<ChartSeries>> curves = {};  ///< long rows, in place of examples
  std::vector<ChartSeries> drawn = {};  ///< columns of a series, over its rows
  int64_t val_begin = 0;                ///< row of a series, from 1; 0: data.val is another file
  std::string validation = {};          ///< a sentence on what validates
};

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
  std::optional<SequenceDetails> details = {};
};

/// Reads the data of `config`, with any number of bad rows; `detailed`: with details.
SequenceReport report_sequences(Config config, bool detailed = false);

void write(JsonWriter& json, const SequenceReport& report);
/// The report as text; with `check` only the problems.
std::string to_text(const SequenceReport& report, bool check);

}  // namespace whisker
