// The products of recurrent layers over all steps at once, around the persistent kernels: what the
// gates get from a layer's input, and the gradients of its parameters and of its input.
#pragma once

#include "core/cuda/product/linear_product.h"
#include "core/cuda/recurrent/persistent_recurrent.h"
#include "core/recurrent.h"

namespace whisker::cuda {

class PersistentProducts {
 public:
  /// `tf32`: f32 operands may be rounded to it.
  PersistentProducts(Context& context, Allocator& allocator, ProductPlans& products, bool tf32)
      : context_(context), allocator_(allocator), products_(products), tf32_(tf32) {}

  /// gx (steps, batch, gates hidden) = input W_ih^T + b_ih of a cell of `layer`; b_ih may be null.
  void gate_inputs(const RecurrentGeometry& g, int64_t layer, const LinearOperands& operands);
  /// Those of `wanted` that are defined, from what the kernels made of `cell`, whose layer read
  /// `input`.
  void parameter_gradients(const RecurrentGeometry& g, int64_t layer, const PersistentCell& cell,
                           const PersistentGradients& gradients, const void* input,
                           const RecurrentParameters& wanted);
  /// dx (steps, batch, inputs of the layer) = dgx W_ih.
  void input_gradient(const RecurrentGeometry& g, int64_t layer, const void* dgx, const void* w_ih,
                      void* dx);

 private:
  void recurrent_weights(const RecurrentGeometry& g, const PersistentCell& cell,
                         const PersistentGradients& gradients, void* dw);

  Context& context_;
  Allocator& allocator_;
  ProductPlans& products_;
  bool tf32_;
};

}  // namespace whisker::cuda
