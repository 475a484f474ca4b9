// Labelled data to evaluate a trained network on, read as its signature describes.
#pragma once

#include "data/batch_source.h"
#include "data/sampler.h"
#include "data/sequences/row_file.h"
#include "data/sequences/sequence_example.h"
#include "train/data/run_data.h"
#include "train/model/network.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct LabelledSequences {
  std::unique_ptr<BatchSource> source;
  std::vector<BadRow> bad;              ///< skipped rows
  std::string use = {};                 ///< of a folder's files: see use_of_files()
  std::vector<std::string> notes = {};  ///< what was assumed
  std::vector<uint64_t> contents = {};  ///< see RunData::train_contents
  /// Examples of texts and rows, by the index in batches: with KeepExamples::yes.
  std::vector<SequenceExample> examples = {};
};

/// How labelled data are read.
struct LabelledOptions {
  /// Columns of labels and texts, and whether the first row has their names; "": as in training.
  std::string label_column = {};
  std::string text_column = {};
  std::optional<Header> header = {};
  /// The CSV that lists examples of texts and rows, with their labels; see listed_examples().
  std::filesystem::path csv = {};
  KeepExamples keep = KeepExamples::no;
  int rules = newest_data_rules;  ///< see Note [Data rules]
};

/// Opens `path`, laid out as the training data of `network`, in batches of `batch_size`; of a
/// language model's only the rows of `part`, which carry states from batch to batch. Throws data
/// for unreadable data and usage for an image network.
LabelledSequences open_labelled(const Network& network, const std::filesystem::path& path,
                                const LabelledOptions& options, int64_t batch_size,
                                Partition part = {});

}  // namespace whisker
