// Data that a trained network is measured on, read as its signature says.
#pragma once

#include "data/batch_source.h"
#include "data/row_file.h"
#include "train/network.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

struct LabelledSequences {
  std::unique_ptr<BatchSource> source;
  std::vector<BadRow> bad;  ///< rows left out
};

/// Where labels and texts stand, when not where they stood in training: "" for that.
struct ColumnNames {
  std::string label_column = {};
  std::string text_column = {};
};

/// Opens `path`, laid out as the training data of `network`. Throws data for what cannot be read
/// and usage for a network on pictures.
LabelledSequences open_labelled(const Network& network, const std::filesystem::path& path,
                                const ColumnNames& columns, int64_t batch_size);

}  // namespace whisker
