// The gemms of recurrent layers over all steps, before and after the persistent kernels: the gates'
// inputs, and the gradients of parameters and of x.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

namespace whisker::cuda {

class PersistentGemms {
 public:
  /// `tf32`: f32 operands may be rounded to it.
  PersistentGemms(Context& context, Allocator& allocator, GemmAlgorithms& gemms, bool tf32)
      : context_(context), allocator_(allocator), gemms_(gemms), tf32_(tf32) {}

  /// gx (steps, batch, gates hidden) = input W_ih^T + b_ih of a cell of `layer`; b_ih may be null.
  void gate_inputs(const RecurrentGeometry& g, int64_t layer, const LinearOperands& operands);
  /// Computes the defined tensors of `wanted` from the gradients of `cell`, whose layer read
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
  GemmAlgorithms& gemms_;
  bool tf32_;
};

}  // namespace whisker::cuda
