// Operators whose bf16 goes through f32 everywhere: they see little data, or none in the middle of
// a network. Gemms and convolutions are in bf16_gemm.cpp; the loops of pointwise operators,
// pooling and batch normalisation take bf16 themselves.
#include "core/cpu/bf16/bf16.h"

#include "core/cpu/bf16/bf16_via_f32.h"

namespace whisker::cpu {

void Bf16Backend::strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) {
  if (!add || in_f32("strided_copy", y)) return CpuBackend::strided_copy(g, add, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::strided_copy(g, add, t.in(x), t.in_out(y)); });
}

void Bf16Backend::reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) {
  if (in_f32("reduce", x)) return CpuBackend::reduce(op, g, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::reduce(op, g, t.in(x), t.out(y)); });
}

void Bf16Backend::argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) {
  if (in_f32("argmax", x)) return CpuBackend::argmax(g, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::argmax(g, t.in(x), y); });
}

void Bf16Backend::gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                                  const Tensor& dx) {
  if (in_f32("gather", dx)) return CpuBackend::gather_backward(g, index, dy, dx);
  widened(*this, [&](Widened& t) { CpuBackend::gather_backward(g, index, t.in(dy), t.out(dx)); });
}

void Bf16Backend::embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) {
  if (in_f32("embedding", dtable)) return CpuBackend::embedding_backward(index, dy, dtable);
  widened(*this,
          [&](Widened& t) { CpuBackend::embedding_backward(index, t.in(dy), t.out(dtable)); });
}

void Bf16Backend::layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                             const Tensor& beta, const Tensor& y, const Tensor& mean,
                             const Tensor& inv_std) {
  if (in_f32("layer_norm", y)) {
    return CpuBackend::layer_norm(g, x, gamma, beta, y, mean, inv_std);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::layer_norm(g, t.in(x), t.in(gamma), t.in(beta), t.out(y), t.out(mean),
                           t.out(inv_std));
  });
}

void Bf16Backend::layer_norm_backward(const LayerNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& mean,
                                      const Tensor& inv_std, const Tensor& dy, const Tensor& dx,
                                      const Tensor& dgamma, const Tensor& dbeta) {
  if (in_f32("layer_norm", dy)) {
    return CpuBackend::layer_norm_backward(g, x, gamma, mean, inv_std, dy, dx, dgamma, dbeta);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::layer_norm_backward(g, t.in(x), t.in(gamma), t.in(mean), t.in(inv_std), t.in(dy),
                                    t.out(dx), t.out(dgamma), t.out(dbeta));
  });
}

void Bf16Backend::softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) {
  if (in_f32("softmax", y)) return CpuBackend::softmax(g, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::softmax(g, t.in(x), t.out(y)); });
}

void Bf16Backend::softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                                   const Tensor& dx) {
  if (in_f32("softmax", dx)) return CpuBackend::softmax_backward(g, y, dy, dx);
  widened(*this,
          [&](Widened& t) { CpuBackend::softmax_backward(g, t.in(y), t.in(dy), t.out(dx)); });
}

void Bf16Backend::cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits,
                                const Tensor& target, const Tensor& class_weight,
                                const Tensor& loss, const Tensor& dlogits) {
  if (in_f32("cross_entropy", logits)) {
    return CpuBackend::cross_entropy(g, logits, target, class_weight, loss, dlogits);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::cross_entropy(g, t.in(logits), t.in(target), t.in(class_weight), t.out(loss),
                              t.out(dlogits));
  });
}

void Bf16Backend::binary_cross_entropy(const Tensor& logits, const Tensor& target,
                                       const Tensor& loss, const Tensor& dlogits) {
  if (in_f32("binary_cross_entropy_with_logits", logits)) {
    return CpuBackend::binary_cross_entropy(logits, target, loss, dlogits);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::binary_cross_entropy(t.in(logits), t.in(target), t.out(loss), t.out(dlogits));
  });
}

void Bf16Backend::optimizer_step(const OptimizerStep& step) {
  if (!in_f32("optimizer_step", step.value)) {
    fail(ErrorKind::usage,
         "optimizer_step: expected f32 master weights, got bf16. Keep the parameter arena in f32.");
  }
  in_f32("optimizer_step", step.gradient);
  if (step.compute.defined()) in_f32("optimizer_step", step.compute);
  CpuBackend::optimizer_step(step);
}

void Bf16Backend::moving_average(const AverageStep& step) {
  if (in_f32("moving_average", step.value)) return CpuBackend::moving_average(step);
  widened(*this, [&](Widened& t) {
    AverageStep wide = step;
    wide.value = t.in(step.value);
    wide.average = t.in_out(step.average);
    CpuBackend::moving_average(wide);
  });
}

}  // namespace whisker::cpu
