// Elementwise kernels: those of f32 and bf16 (elementwise.cpp), and of every dtype
// (typed_elementwise.cpp).
#pragma once

#include "core/backend/elementwise.h"
#include "core/cpu/cpu_kernels.h"

namespace whisker::cpu {

class Elementwise final : public ElementwiseKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void fill(double value, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y) override;
  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override;
  void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
              const Tensor& y) override;
  void accumulate(const Tensor& term, const Tensor& sum) override;
  void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
               const Tensor& y) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override;
  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override;
  void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                         const Tensor& out) override;
  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override;
};

}  // namespace whisker::cpu
