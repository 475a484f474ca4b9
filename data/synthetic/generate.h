// `whisker data generate`: a folder of drawn cat and dog faces or, with --waves, of labelled
// sequences, to train without photographs or measurements. The same options give the same files.
#pragma once

#include "core/tensor/philox.h"
#include "data/codec/image.h"

#include <cstdint>
#include <filesystem>

namespace whisker {

struct GenerateOptions {
  std::filesystem::path folder;  ///< made; must not exist or be empty, else throws usage
  int64_t train_per_class = 500;
  int64_t val_per_class = 100;
  uint64_t seed = 0;
  int workers = -1;  ///< of images; -1: auto
};

/// Writes folder/{train,val}/{cat,dog}/*.jpg of 128 to 200 pixels a side, and a README.txt that
/// says they are drawn; so does a comment in every file. Both return the bytes written.
uint64_t generate_images(const GenerateOptions& options);
/// One face: only the face differs between cats and dogs, not the colours or the background.
Image draw_face(bool cat, int height, int width, PhiloxStream& random);

/// Ten sensors in a row measure a wave that travels "left" or "right", for 12 to 40 steps with
/// noise. No single step shows the direction. Writes folder/train.csv and folder/val.csv, a
/// sequence per row: the class, then ten values for each step; shorter rows end in empty fields.
uint64_t generate_waves(const GenerateOptions& options);

}  // namespace whisker
