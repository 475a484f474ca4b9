// The CPU backend as the registry holds it: f32 and bf16.
#pragma once

#include "core/cpu/backend_class.h"
#include "core/cpu/cpu_backend.h"

namespace whisker::cpu {

class Bf16Backend final : public CpuBackend {
 public:
  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override;
  void binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
              const Tensor& y) override;
  void accumulate(const Tensor& term, const Tensor& sum) override;
  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override;
  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override;
  void activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy, const Tensor& v,
                         const Tensor& out) override;
  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override;
  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override;
  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override;
  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override;
  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override;
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;
  void conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;
  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override;
  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override;
  void batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                        const Tensor& beta, const Tensor& residual, const Tensor& y,
                        const Tensor& mean, const Tensor& inverse_deviation,
                        const Tensor& variance) override;
  void batch_norm_inference(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                            const Tensor& beta, const Tensor& residual, const Tensor& mean,
                            const Tensor& variance, const Tensor& y) override;
  void batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics, const Tensor& x,
                           const Tensor& gamma, const Tensor& y, const Tensor& mean,
                           const Tensor& inverse_deviation, const Tensor& dy, const Tensor& dx,
                           const Tensor& dgamma, const Tensor& dbeta,
                           const Tensor& dresidual) override;
  void layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                  const Tensor& beta, const Tensor& y, const Tensor& mean,
                  const Tensor& inverse_deviation) override;
  void layer_norm_backward(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                           const Tensor& mean, const Tensor& inverse_deviation, const Tensor& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) override;
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override;
  void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits, const Tensor& target,
                     const Tensor& class_weight, const Tensor& loss,
                     const Tensor& dlogits) override;
  void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                            const Tensor& dlogits) override;
  void add_squares(const Tensor& x, double* sum) override;
  void optimizer_step(const OptimizerStep& step) override;
  void moving_average(const AverageStep& step) override;
};

}  // namespace whisker::cpu
