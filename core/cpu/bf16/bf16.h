// The CPU backend as the registry holds it: f32 and bf16.
#pragma once

#include "core/cpu/backend_class.h"
#include "core/cpu/cpu_backend.h"

namespace whisker::cpu {

struct GemmRequest;

class Bf16Backend final : public CpuBackend {
 public:
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
  void recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                 const RecurrentOutputs& out) override;
  void recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                          const RecurrentOutputs& out,
                          const RecurrentGradients& gradients) override;
  void layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                  const Tensor& beta, const Tensor& y, const Tensor& mean,
                  const Tensor& inv_std) override;
  void layer_norm_backward(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                           const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) override;
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override;
  void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits, const Tensor& target,
                     const Tensor& class_weight, const Tensor& loss,
                     const Tensor& dlogits) override;
  void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                            const Tensor& dlogits) override;
  void optimizer_step(const OptimizerStep& step) override;
  void moving_average(const AverageStep& step) override;

 private:
  // In the CPU's own bf16; false, with nothing done, where it has none or not for this.
  bool native_matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y);
  bool native_linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                     const Tensor& y);
  bool native_linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                              const Tensor& y, const Tensor& dy, const Tensor& dx, const Tensor& dw,
                              const Tensor& db);
  bool native_conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                     const Tensor& y);
  bool native_conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                              const Tensor& y, const Tensor& dy, const Tensor& dx, const Tensor& dw,
                              const Tensor& db);
#if WHISKER_ONEDNN
  bool native(const GemmRequest& request);
#endif
  /// gemm() with operands rounded to bf16 where the CPU's own bf16 can be used, else in f32.
  void gemm_in_bf16(const Gemm& gemm);
};

inline bf16_t* bf16(const Tensor& x) {
  return static_cast<bf16_t*>(x.raw());
}

}  // namespace whisker::cpu
