// The CPU backend: oneDNN, OpenBLAS and own vectorised loops.
#pragma once

#include "core/backend.h"

#include <memory>

namespace whisker {

struct CpuOptions {
  int threads = 0;       ///< that compute; 0: as many as OpenMP wants, see OMP_NUM_THREADS
  bool winograd = true;  ///< let convolutions use Winograd's algorithm: see docs/performance.md
  bool deterministic =
      false;                ///< take the heuristic's choice of algorithm: time and import nothing
  bool native_bf16 = true;  ///< multiply bf16 as such where the CPU can; else through f32
  bool operator==(const CpuOptions&) const = default;
};

std::unique_ptr<Backend> make_cpu_backend();

/// The options of the registered CPU backend, set by the thread that computes. Changing them
/// forgets the choices made so far.
CpuOptions cpu_options();
void set_cpu_options(const CpuOptions& options);

}  // namespace whisker
