// The kernels of batch, layer and group normalisation. Statistics are f32, of f64 x f64: (channels)
// of batch_norm, (rows) of layer_norm, (n, groups) of group_norm. gamma and beta are (channels) or
// (features). Structs that kernels share with operators are templates on the handle of an operand.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/operands.h"
#include "core/backend/running_statistics.h"
#include "core/backend/unsummed_grads.h"

#include <type_traits>

namespace whisker {

/// What batch_norm computes of activations; others are operators of their own. `alone`: no residual
/// is added, and the statistics are those of one rank. Where f' needs f's operand, backward
/// computes that again from x.
constexpr bool batch_norm_computes(ActivationSpec f, bool alone) {
  if (f.kind == Activation::none || f.kind == Activation::relu) return true;
  return alone && (f.kind == Activation::relu6 || f.kind == Activation::hard_swish ||
                   f.kind == Activation::silu);
}

struct NormInputs {
  const Tensor& x;  ///< (rows, channels), (rows, features) or (n, positions, channels)
  const Tensor& gamma;
  const Tensor& beta;
  const Tensor& residual = no_tensor;  ///< as x, where g.residual

  NormInputs map(auto&& fn) const { return {fn(x), fn(gamma), fn(beta), fn(residual)}; }
};

/// The result, and the statistics that backward needs.
struct NormOutputs {
  const Tensor& y;  ///< as x
  const Tensor& mean;
  const Tensor& inv_std;

  NormOutputs map(auto&& fn) const { return {fn(y), fn(mean), fn(inv_std)}; }
};

/// Statistics known before the pass over x, (channels) each; the variance is biased.
struct KnownStatistics {
  const Tensor& mean;
  const Tensor& variance;

  KnownStatistics map(auto&& fn) const { return {fn(mean), fn(variance)}; }
};

/// What backward reads of forward's operands. x and inv_std are undefined when neither dx nor
/// dgamma is wanted, gamma and beta when dx is not, unless the activation's slope follows from x
/// alone.
template <class Handle>
struct BasicNormSaved {
  Handle x;
  Handle gamma;
  Handle beta = no_tensor;  ///< batch_norm's
  Handle y = no_tensor;     ///< batch_norm's with an activation that is grad_from_output
  Handle mean;
  Handle inv_std;

  auto map(auto&& fn) const {
    return BasicNormSaved<decltype(fn(x))>{fn(x), fn(gamma), fn(beta),
                                           fn(y), fn(mean),  fn(inv_std)};
  }
};
using NormSaved = BasicNormSaved<const Tensor&>;

/// Each is computed when defined.
template <class Handle>
struct BasicNormGrads {
  Handle dx = {}, dgamma = {}, dbeta = {};
  Handle dresidual = {};  ///< batch_norm's

  auto map(auto&& fn) const {
    return BasicNormGrads<std::decay_t<decltype(fn(dx))>>{fn(dx), fn(dgamma), fn(dbeta),
                                                          fn(dresidual)};
  }
};
using NormGrads = BasicNormGrads<Tensor>;

class NormalizationKernels {
 public:
  virtual ~NormalizationKernels() = default;

  /// Training: statistics of this batch, kept for backward, and what becomes of the running ones,
  /// whose variance is unbiased.
  virtual void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in,
                                const NormOutputs& out, const RunningStatistics& running) = 0;
  virtual void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                                    const KnownStatistics& statistics, const Tensor& y) = 0;
  /// True when batch_norm_backward adds up the parts of dy itself.
  virtual bool adds_unsummed_grads() const { return false; }
  /// True when batch_norm_backward multiplies dy by its factor itself, too.
  virtual bool scales_grads(const BatchNormGeometry&) const { return false; }
  /// dy.second is undefined unless adds_unsummed_grads(), dy.factor unless scales_grads(g). The
  /// activation's slope follows from y, or without a residual from x, gamma and beta.
  virtual void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                                   const UnsummedGrads& dy, const NormGrads& out) = 0;
  virtual void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                          const NormOutputs& out) = 0;
  virtual void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved,
                                   const Tensor& dy, const NormGrads& out) = 0;
  virtual void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                          const NormOutputs& out) = 0;
  virtual void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved,
                                   const Tensor& dy, const NormGrads& out) = 0;
};

}  // namespace whisker
