// Whether a run validates on images that its weights were trained on.
#pragma once

#include "train/config/config.h"
#include "train/data/run_data.h"

#include <string>
#include <vector>

namespace whisker {

/// Messages for the user, by the images' content: how many validation images of `images` are
/// training images, too, which training images contradict each other, and how many trained the
/// weights of init.from or those that these began with, where their run folders list what trained
/// them. Reads files for a few seconds at most.
std::vector<std::string> validation_overlap(const Config& config, ImageFolders& images);

}  // namespace whisker
