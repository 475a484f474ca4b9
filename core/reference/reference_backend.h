// The reference backend: plain loops in f32 and f64, the textbook definition of every operator.
#pragma once

#include <memory>

#include "core/backend.h"

namespace whisker {
std::unique_ptr<Backend> make_reference_backend();
}
