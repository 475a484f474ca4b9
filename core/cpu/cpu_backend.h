// The CPU backend: oneDNN, OpenBLAS and own vectorised loops.
#pragma once

#include "core/backend.h"

#include <memory>

namespace whisker {
std::unique_ptr<Backend> make_cpu_backend();
}
