// The training and validation data of a finished run, to evaluate its weights on them again.
#pragma once

#include "core/io/json.h"
#include "data/images/image_folder.h"
#include "train/config/config.h"
#include "train/data/labelled_sequences.h"
#include "train/model/network.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace whisker {

/// A run folder to read.
struct PastRun {
  std::filesystem::path folder;
  Config config;

  std::filesystem::path split() const {
    return folder / "split.csv";
  }  ///< see data/images/split_list.h
};

/// The run folder that contains a weights file, if any.
std::optional<PastRun> run_of(const std::filesystem::path& weights);

/// last/state.json. Throws checkpoint for none.
JsonValue state_of(const PastRun& run);

/// A part of a run's data.
struct RunPart {
  std::string split;       ///< "train" or "val"
  std::string where = {};  ///< where the data are now; empty: where the run found them
};

/// The images that split.csv lists. Throws checkpoint for a list that is missing, damaged or of
/// another network, data when all of the images are missing or one has another content or label.
ImageFolder images_of_split(const Network& network, const PastRun& run, const RunPart& part);

/// Text, rows or a series, read and split again; `rank` is the part of open_labelled(). Throws what
/// reading throws, and data unless they are the run's examples.
LabelledSequences sequences_of_split(const Network& network, const PastRun& run,
                                     const RunPart& part, int64_t batch_size, Partition rank = {},
                                     KeepExamples keep = KeepExamples::no);

}  // namespace whisker
