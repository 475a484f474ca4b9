// One call of a convolution through oneDNN, in f32 or bf16: layouts, compiled plans, and what
// surrounds them.
#pragma once

#include "core/cpu/arrangement.h"
#include "core/cpu/conv2d_plans.h"

namespace whisker::cpu {

class Conv2dDnnl {
 public:
  Conv2dDnnl(Conv2dPlans& plans, Allocator& allocator, const CpuOptions& options,
             const Conv2dGeometry& g);

  /// Compute everything, or return false for another way to do so.
  bool forward(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
  bool backward(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& dy,
                const Tensor& dx, const Tensor& dw, const Tensor& db);

 private:
  template <class T>
  bool forward_as(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
  template <class T>
  bool backward_as(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& dy,
                   const Tensor& dx, const Tensor& dw, const Tensor& db);
  ConvolutionRequest request(ConvolutionPass pass, bool bias, bool fused) const;
  // The activation may be oneDNN's: see Note [Fused relu and NaN].
  template <class T>
  bool fuses(const T* x, const Tensor& w, const Tensor& b) const;
  bool run(const ConvolutionRequest& request, const ConvolutionOperands& operands) {
    return plans_->run(*allocator_, *options_, request, operands);
  }

  Conv2dPlans* plans_;
  Allocator* allocator_;
  const CpuOptions* options_;
  Conv2dGeometry g_;
  Arrangement x_;
  Arrangement y_;
  bool possible_;
};

}  // namespace whisker::cpu
