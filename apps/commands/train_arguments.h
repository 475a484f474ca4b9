// What `whisker train` was asked to do.
#pragma once

#include "apps/ranks/launcher.h"
#include "apps/terminal/command.h"
#include "train/one_command.h"

#include <string>
#include <vector>

namespace whisker {

struct TrainArguments {
  std::vector<std::string> words;  // CONFIG and overrides, or overrides alone with --resume
  std::string resume, repeat;
  std::string init, weights_key;
  std::string gpus;
  int max_restarts = 0;
  OneCommand one_command;  // where there is no CONFIG
  bool pretrained = false;
  bool dry_run = false;
  bool find_lr = false;
};

/// Throws usage where the options of `--data` stand without it or beside what they exclude.
void check_one_command(const TrainArguments& arguments);
/// Throws usage for what stands where a configuration is expected and is something else that
/// `train` can use.
void refuse_other_targets(const std::string& target);
/// A run goes on as its config.yaml says, which holds the overrides.
Restarts restarts_of(const TrainArguments& arguments, const Invocation& invocation);

}  // namespace whisker
