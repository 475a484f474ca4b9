// The CPU backend: oneDNN, OpenBLAS and own vectorised loops.
#pragma once

#include "core/backend.h"

#include <memory>

namespace whisker {

struct CpuOptions {
  bool winograd = true;  ///< let convolutions use Winograd's algorithm: see docs/performance.md
  bool deterministic = false;  ///< take the heuristic's choice of algorithm, time nothing
};

std::unique_ptr<Backend> make_cpu_backend();

/// The options of the registered CPU backend. Setting them forgets the choices made so far.
CpuOptions cpu_options();
void set_cpu_options(const CpuOptions& options);

}  // namespace whisker
