// Options of the CPU backend.
#pragma once

namespace whisker {

struct CpuOptions {
  int threads = 0;       ///< 0: as many as OpenMP chooses, see OMP_NUM_THREADS
  bool winograd = true;  ///< let convolutions use Winograd's algorithm: docs/internals/kernels.md
  bool deterministic = false;  ///< use the heuristic's algorithms: time and import nothing
  bool native_bf16 = true;     ///< multiply in bf16 where the CPU can; else via f32
  bool operator==(const CpuOptions&) const = default;
};

}  // namespace whisker
