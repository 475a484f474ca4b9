// The CPU backend: oneDNN, OpenBLAS and own vectorised loops.
#pragma once

#include <memory>

#include "core/backend.h"

namespace whisker {
std::unique_ptr<Backend> make_cpu_backend();
}
