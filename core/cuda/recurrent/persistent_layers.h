// Recurrent layers by our own persistent kernels, with products over all steps before and after
// them (core/cuda/recurrent/persistent_products.h); lengths are read on the device only.
#pragma once

#include "core/cuda/recurrent/persistent_products.h"

#include <deque>
#include <vector>

namespace whisker::cuda {

class PersistentLayers {
 public:
  /// `tf32`: f32 operands may be rounded to it, without which f32 is not taken.
  PersistentLayers(Context& context, Allocator& allocator, ProductPlans& products, bool tf32)
      : context_(context),
        allocator_(allocator),
        products_(context, allocator, products, tf32),
        tf32_(tf32) {}

  /// Whether kernels fit `g` on this GPU.
  bool take(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// As Backend's methods of these names, for a `g` that fits. Nothing waits for the device, and
  /// backward leaves the reserve as it is.
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
  PersistentProducts products_;
  bool tf32_;
};

}  // namespace whisker::cuda
