// One call of a convolution through oneDNN, in f32 or bf16, with its layouts and epilogues.
#pragma once

#include "core/backend/convolution.h"
#include "core/backend/operands.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/onednn/conv2d_algorithms.h"

namespace whisker::cpu {

class Conv2dDnnl {
 public:
  Conv2dDnnl(Conv2dAlgorithms& algorithms, Allocator& allocator, const Conv2dGeometry& g);

  /// See ConvolutionKernels::conv2d_workspace().
  KernelWorkspace workspace(bool dx, bool dw) const;
  /// Compute everything, or return false: not supported.
  bool forward(const AffineInputs& in, const Tensor& y);
  bool backward(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& dy,
                const Tensor& dx, const Tensor& dw, const Tensor& db);

 private:
  template <class T>
  bool forward_as(const AffineInputs& in, const Tensor& y);
  template <class T>
  bool backward_as(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& dy,
                   const Tensor& dx, const Tensor& dw, const Tensor& db);
  ConvolutionRequest request(ConvolutionPass pass, bool bias, bool fused) const;
  // Fuses the activation where possible: see Note [Fused relu and NaN].
  template <class T>
  bool fuses(const T* x, const AffineInputs& in) const;

  Conv2dAlgorithms* algorithms_;
  Allocator* allocator_;
  Conv2dGeometry g_;
  ImageLayout x_;
  ImageLayout y_;
  bool possible_;
};

}  // namespace whisker::cpu
