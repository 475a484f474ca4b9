// Recurrent layers by Whisker's persistent kernels, with gemms over all steps before and after them
// (persistent_gemms.h). Lengths are read on the device only.
#pragma once

#include "core/cuda/recurrent/persistent/persistent_gemms.h"

#include <deque>
#include <vector>

namespace whisker::cuda {

class PersistentLayers {
 public:
  /// `tf32`: f32 operands may be rounded to it; without it f32 is not supported.
  PersistentLayers(Context& context, Allocator& allocator, GemmAlgorithms& gemms, bool tf32)
      : context_(context),
        allocator_(allocator),
        gemms_(context, allocator, gemms, tf32),
        tf32_(tf32) {}

  /// Whether kernels fit `g` on this GPU.
  bool fits(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// As the methods of RecurrentKernels, for a `g` that fits. Nothing waits for the device;
  /// backward does not change the reserve.
  int64_t reserve_bytes(const RecurrentGeometry& g) const;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out);
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients);

 private:
  struct Launch;
  std::optional<PersistentTiling> tiling(const RecurrentGeometry& g) const;
  std::vector<Launch> launches(const RecurrentGeometry& g) const;
  PersistentLaunch prepared(const RecurrentGeometry& g, const PersistentTiling& tiling,
                            const Tensor& lengths, std::deque<Scratch>& scratch);
  const void* aligned(const Tensor& x, std::deque<Scratch>& scratch);
  void* take_scratch(std::deque<Scratch>& scratch, int64_t bytes);
  void* dropped(const RecurrentGeometry& g, const RecurrentInputs& in, int64_t layer, const void* y,
                std::deque<Scratch>& scratch);
  std::vector<PersistentCell> cells_of(const RecurrentGeometry& g, const Launch& launch,
                                       const RecurrentInputs& in, const RecurrentOutputs& out,
                                       std::deque<Scratch>& scratch);

  Context& context_;
  Allocator& allocator_;
  PersistentGemms gemms_;
  bool tf32_;
};

}  // namespace whisker::cuda
