// The keys of the configuration's section `data`.
#pragma once

#include "train/config.h"

namespace whisker {

void data_fields(FieldVisitor& v, DataConfig& c);

}  // namespace whisker
