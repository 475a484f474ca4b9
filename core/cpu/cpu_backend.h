// The CPU backend: oneDNN, OpenBLAS and own vectorised loops.
#pragma once

#include "core/backend/backend.h"
#include "core/cpu/support/options.h"

#include <memory>

namespace whisker {

std::unique_ptr<Backend> make_cpu_backend();

/// The options of the registered CPU backend, set by the thread that computes. Changing them
/// forgets the choices made so far.
CpuOptions cpu_options();
void set_cpu_options(const CpuOptions& options);

}  // namespace whisker
