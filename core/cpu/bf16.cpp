// bf16 through f32: operands are widened to scratch tensors, the f32 kernel runs, results are
// rounded back. Every operator therefore takes bf16, and sums and statistics are f32 or better.
// This is also where dtypes that the CPU does not compute in are refused by name.
#include "core/cpu/bf16.h"

#include "core/autograd.h"

#include <utility>
#include <vector>

namespace whisker::cpu {
namespace {

bool in_f32(const char* op, const Tensor& x) {
  if (x.dtype() == DType::f32) return true;
  if (x.dtype() == DType::bf16) return false;
  fail(ErrorKind::usage,
       "{}: cpu computes in f32 and bf16, got {}. Convert with to(f32), or use device=reference "
       "for f64.",
       op, x.dtype());
}

/// f32 stand-ins for the bf16 operands of one call.
class Widened {
 public:
  explicit Widened(CpuBackend& backend) : backend_(&backend) {}

  Tensor in(const Tensor& x) {
    if (!narrow(x)) return x;
    const Tensor wide = stand_in(x);
    backend_->cast(x, wide);
    return wide;
  }
  Tensor out(const Tensor& y) {
    if (!narrow(y)) return y;
    results_.emplace_back(stand_in(y), y);
    return results_.back().first;
  }
  /// An operand that is read and written.
  Tensor in_out(const Tensor& y) {
    if (!narrow(y)) return y;
    results_.emplace_back(in(y), y);
    return results_.back().first;
  }
  void finish() {
    for (const auto& [wide, y] : results_) backend_->cast(wide, y);
  }

 private:
  static bool narrow(const Tensor& x) { return x.defined() && x.dtype() == DType::bf16; }
  static Tensor stand_in(const Tensor& x) {
    const MemoryScope scope(MemoryCategory::workspace);
    return empty(x.shape(), {.dtype = DType::f32, .device = x.device()});
  }

  CpuBackend* backend_;
  std::vector<std::pair<Tensor, Tensor>> results_;
};

template <class Fn>
void widened(CpuBackend& backend, Fn&& fn) {
  Widened t(backend);
  fn(t);
  t.finish();
}

template <class Geometry>
Geometry as_f32(Geometry g) {
  g.dtype = DType::f32;
  return g;
}

}  // namespace

void Bf16Backend::unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) {
  if (in_f32("unary", y)) return CpuBackend::unary(spec, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::unary(spec, t.in(x), t.out(y)); });
}

void Bf16Backend::binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("binary", y)) return CpuBackend::binary(op, g, a, b, y);
  widened(*this, [&](Widened& t) { CpuBackend::binary(op, g, t.in(a), t.in(b), t.out(y)); });
}

void Bf16Backend::accumulate(const Tensor& term, const Tensor& sum) {
  if (in_f32("accumulate", sum)) return CpuBackend::accumulate(term, sum);
  widened(*this, [&](Widened& t) { CpuBackend::accumulate(t.in(term), t.in_out(sum)); });
}

void Bf16Backend::activation(ActivationSpec f, const Tensor& x, const Tensor& y) {
  if (in_f32("activation", y)) return CpuBackend::activation(f, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::activation(f, t.in(x), t.out(y)); });
}

void Bf16Backend::activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                      const Tensor& dx) {
  if (in_f32("activation", dx)) return CpuBackend::activation_backward(f, saved, dy, dx);
  widened(*this, [&](Widened& t) {
    CpuBackend::activation_backward(f, t.in(saved), t.in(dy), t.out(dx));
  });
}

void Bf16Backend::activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                    const Tensor& v, const Tensor& out) {
  if (in_f32("activation", out)) return CpuBackend::activation_second(f, saved, dy, v, out);
  widened(*this, [&](Widened& t) {
    CpuBackend::activation_second(f, t.in(saved), t.in(dy), t.in(v), t.out(out));
  });
}

void Bf16Backend::dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) {
  if (in_f32("dropout", y)) return CpuBackend::dropout(rate, key, x, y);
  widened(*this, [&](Widened& t) { CpuBackend::dropout(rate, key, t.in(x), t.out(y)); });
}

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

void Bf16Backend::matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("matmul", y)) return CpuBackend::matmul(g, a, b, y);
  widened(*this, [&](Widened& t) { CpuBackend::matmul(g, t.in(a), t.in(b), t.out(y)); });
}

void Bf16Backend::linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("linear", y)) return CpuBackend::linear(g, x, w, b, y);
  widened(*this,
          [&](Widened& t) { CpuBackend::linear(as_f32(g), t.in(x), t.in(w), t.in(b), t.out(y)); });
}

void Bf16Backend::linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  if (in_f32("linear", dy)) return CpuBackend::linear_backward(g, x, w, y, dy, dx, dw, db);
  widened(*this, [&](Widened& t) {
    CpuBackend::linear_backward(as_f32(g), t.in(x), t.in(w), t.in(y), t.in(dy), t.out(dx),
                                t.out(dw), t.out(db));
  });
}

void Bf16Backend::conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("conv2d", y)) return CpuBackend::conv2d(g, x, w, b, y);
  widened(*this,
          [&](Widened& t) { CpuBackend::conv2d(as_f32(g), t.in(x), t.in(w), t.in(b), t.out(y)); });
}

void Bf16Backend::conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  if (in_f32("conv2d", dy)) return CpuBackend::conv2d_backward(g, x, w, y, dy, dx, dw, db);
  widened(*this, [&](Widened& t) {
    CpuBackend::conv2d_backward(as_f32(g), t.in(x), t.in(w), t.in(y), t.in(dy), t.out(dx),
                                t.out(dw), t.out(db));
  });
}

void Bf16Backend::pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
                         const Tensor& workspace) {
  if (in_f32("pool2d", y)) return CpuBackend::pool2d(g, x, y, workspace);
  widened(*this, [&](Widened& t) { CpuBackend::pool2d(as_f32(g), t.in(x), t.out(y), workspace); });
}

void Bf16Backend::pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace,
                                  const Tensor& dy, const Tensor& dx) {
  if (in_f32("pool2d", dy)) return CpuBackend::pool2d_backward(g, workspace, dy, dx);
  widened(*this, [&](Widened& t) {
    CpuBackend::pool2d_backward(as_f32(g), workspace, t.in(dy), t.out(dx));
  });
}

void Bf16Backend::batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                   const Tensor& beta, const Tensor& residual, const Tensor& y,
                                   const Tensor& mean, const Tensor& inverse_deviation,
                                   const Tensor& variance) {
  if (in_f32("batch_norm", y)) {
    return CpuBackend::batch_norm_train(g, x, gamma, beta, residual, y, mean, inverse_deviation,
                                        variance);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::batch_norm_train(as_f32(g), t.in(x), t.in(gamma), t.in(beta), t.in(residual),
                                 t.out(y), t.out(mean), t.out(inverse_deviation), t.out(variance));
  });
}

void Bf16Backend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                       const Tensor& gamma, const Tensor& beta,
                                       const Tensor& residual, const Tensor& mean,
                                       const Tensor& variance, const Tensor& y) {
  if (in_f32("batch_norm", y)) {
    return CpuBackend::batch_norm_inference(g, x, gamma, beta, residual, mean, variance, y);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::batch_norm_inference(as_f32(g), t.in(x), t.in(gamma), t.in(beta), t.in(residual),
                                     t.in(mean), t.in(variance), t.out(y));
  });
}

void Bf16Backend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                      const Tensor& x, const Tensor& gamma, const Tensor& y,
                                      const Tensor& mean, const Tensor& inverse_deviation,
                                      const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                                      const Tensor& dbeta, const Tensor& dresidual) {
  if (in_f32("batch_norm", dy)) {
    return CpuBackend::batch_norm_backward(g, batch_statistics, x, gamma, y, mean,
                                           inverse_deviation, dy, dx, dgamma, dbeta, dresidual);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::batch_norm_backward(as_f32(g), batch_statistics, t.in(x), t.in(gamma), t.in(y),
                                    t.in(mean), t.in(inverse_deviation), t.in(dy), t.out(dx),
                                    t.out(dgamma), t.out(dbeta), t.out(dresidual));
  });
}

void Bf16Backend::layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                             const Tensor& beta, const Tensor& y, const Tensor& mean,
                             const Tensor& inverse_deviation) {
  if (in_f32("layer_norm", y)) {
    return CpuBackend::layer_norm(g, x, gamma, beta, y, mean, inverse_deviation);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::layer_norm(g, t.in(x), t.in(gamma), t.in(beta), t.out(y), t.out(mean),
                           t.out(inverse_deviation));
  });
}

void Bf16Backend::layer_norm_backward(const LayerNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& mean,
                                      const Tensor& inverse_deviation, const Tensor& dy,
                                      const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) {
  if (in_f32("layer_norm", dy)) {
    return CpuBackend::layer_norm_backward(g, x, gamma, mean, inverse_deviation, dy, dx, dgamma,
                                           dbeta);
  }
  widened(*this, [&](Widened& t) {
    CpuBackend::layer_norm_backward(g, t.in(x), t.in(gamma), t.in(mean), t.in(inverse_deviation),
                                    t.in(dy), t.out(dx), t.out(dgamma), t.out(dbeta));
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

void Bf16Backend::add_squares(const Tensor& x, double* sum) {
  if (in_f32("add_squares", x)) return CpuBackend::add_squares(x, sum);
  widened(*this, [&](Widened& t) { CpuBackend::add_squares(t.in(x), sum); });
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
