// The configuration that `summary`, `bench` and `study` look at: a file's, or that of a preset
// named in its place, with the classes and the image size of its ImageNet weights.
#pragma once

#include "apps/terminal/command.h"
#include "train/config/config.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct ShownConfig {
  Config config;
  int64_t classes = 0;  ///< that a preset without data is shown with; 0: as the configuration says
};

struct ShownClasses {
  int64_t given = 0;         ///< by an option of the command; 0: not given
  std::string_view options;  ///< what decides them: "--classes N"
};

/// Reads the file `target`, or makes the configuration of the preset of that name where no such
/// file exists, and says what it assumes beside what is given. Throws what read_config() throws.
ShownConfig read_shown_config(const std::string& target, const std::vector<std::string>& overrides,
                              const ShownClasses& classes, const Invocation& invocation);

/// A temporary folder with `count` names of one random image, in `classes` classes.
class RandomImages {
 public:
  RandomImages(int64_t count, int64_t classes, int64_t side);
  ~RandomImages();
  RandomImages(const RandomImages&) = delete;
  RandomImages& operator=(const RandomImages&) = delete;

  /// Makes them the training images of `config`.
  void become_data_of(Config& config) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace whisker
