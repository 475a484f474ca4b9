// The configuration of `whisker train --data DIR`: a recipe of configs/ with what the data and the
// weights decide.
#pragma once

#include "train/config/config.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// configs/finetune.yaml, and configs/quickstart.yaml for a network without weights.
std::string_view fine_tune_recipe();
std::string_view new_network_recipe();

struct OneCommand {
  std::string data;     ///< folder of class folders, or of train/ and val/
  std::string weights;  ///< fine-tuned; "": a new network
  std::string model;    ///< preset; "": as the weights say, else small_resnet
};

/// What fine-tuning leaves to the number of training images, and to where it runs. Given `epochs`
/// are divided between the two parts as the epochs that it would choose; 0: none are given.
struct FineTunePlan {
  int64_t head_epochs = 0;  ///< of the head alone
  int64_t all_epochs = 0;   ///< of all layers, after those
  double least_crop = 0;    ///< part of an image: augment.crop_scale's lower end
  double last_blocks = 1;   ///< unfreeze_last: all layers are so many of the blocks
};
FineTunePlan fine_tune_plan(int64_t images, bool on_gpu, int64_t epochs = 0);

/// Throws what read_config_text() and listing the data throw.
Config one_command_config(const OneCommand& command, const std::vector<std::string>& overrides);

}  // namespace whisker
