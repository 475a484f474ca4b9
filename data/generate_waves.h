// `whisker data generate --waves`: labelled sequences to train on where no measurements are.
#pragma once

#include "data/generate.h"

namespace whisker {

/// What ten sensors in a row see of a wave that travels past them, "left" or "right", for 12 to 40
/// steps under noise: no single step tells which way. Writes folder/train.csv and folder/val.csv,
/// a sequence per row: the class, then ten values for each step; shorter rows end in empty fields.
/// The same options give the same files. Returns the bytes written. Throws usage for options out of
/// range or a folder that is not empty, disk when it cannot be written.
int64_t generate_waves(const GenerateOptions& options);

}  // namespace whisker
