// `whisker data generate --waves`: labelled sequences, to train without measurements.
#pragma once

#include "data/synthetic/generate.h"

namespace whisker {

/// Ten sensors in a row measure a wave that travels "left" or "right", for 12 to 40 steps with
/// noise. No single step shows the direction. Writes folder/train.csv and folder/val.csv, a
/// sequence per row: the class, then ten values for each step; shorter rows end in empty fields.
/// The same options give the same files. Returns the bytes written. Throws usage for options out of
/// range or a folder that is not empty, disk when it cannot be written.
int64_t generate_waves(const GenerateOptions& options);

}  // namespace whisker
