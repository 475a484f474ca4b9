// A classifier on picture files: read, decode exactly, preprocess as in training, run in batches.
#pragma once

#include "train/classifier.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

struct PictureResult {
  std::string path;
  std::vector<float> probabilities;  ///< (classes); empty when the picture could not be read
  std::string error;                 ///< why not; empty when it could
};

/// Calls `report` once per path, in order. Unreadable pictures are reported, the rest go on.
void classify_pictures(const Classifier& classifier, const std::vector<std::string>& paths,
                       int64_t batch_size, const std::function<void(const PictureResult&)>& report);

}  // namespace whisker
