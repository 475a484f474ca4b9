// `whisker data generate`: a folder of drawn cat and dog faces or, with --waves, of labelled
// sequences, to train without photographs or measurements.
#pragma once

#include <cstdint>
#include <filesystem>

namespace whisker {

struct GenerateOptions {
  std::filesystem::path folder;  ///< made; must not exist or be empty
  int64_t train_per_class = 500;
  int64_t val_per_class = 100;
  uint64_t seed = 0;
  int min_side = 128;  ///< of images: pixels, each side drawn from [min_side, max_side]
  int max_side = 200;
  int workers = -1;  ///< of images; -1: auto
};

struct GenerateResult {
  std::filesystem::path train;  ///< holds cat/ and dog/
  std::filesystem::path val;    ///< the same; empty when val_per_class is 0
  int64_t files = 0;
  uint64_t bytes = 0;
};

/// Writes folder/{train,val}/{cat,dog}/*.jpg and a README.txt that says they are drawn; so does a
/// comment in every file. The same options give the same files on one machine. Throws usage for
/// options out of range or a folder that is not empty, disk when it cannot be written.
GenerateResult generate_images(const GenerateOptions& options);

/// Ten sensors in a row measure a wave that travels "left" or "right", for 12 to 40 steps with
/// noise. No single step shows the direction. Writes folder/train.csv and folder/val.csv, a
/// sequence per row: the class, then ten values for each step; shorter rows end in empty fields.
/// The same options give the same files. Returns the bytes written. Throws usage for options out of
/// range or a folder that is not empty, disk when it cannot be written.
int64_t generate_waves(const GenerateOptions& options);

}  // namespace whisker
