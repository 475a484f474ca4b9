// What runs is what operators ask of the backend.
#include "bench/operator_runs.h"

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/backend/fused_ops.h"
#include "core/backend/normalization.h"
#include "core/backend/pooling.h"

#include <vector>

namespace whisker::bench {
namespace {

constexpr TensorOptions f32{.device = gpu};
constexpr TensorOptions bf16{.dtype = DType::bf16, .device = gpu};

// (N, H, W, C): one random image N times, as the host takes seconds to make them all.
Tensor random(const Shape& shape, uint64_t stream) {
  return broadcast_to(rand_normal(shape.with(0, 1), 0, 1, 1, stream, f32).to(DType::bf16), shape);
}

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.defined() ? tensor.bytes() : 0;
  return bytes;
}

void train(Backend& backend, const BatchNormGeometry& g, const TrainingNorm& norm,
           const Tensor& residual, const Tensor& y) {
  backend.normalization().batch_norm_train(
      g, {.x = norm.x, .gamma = norm.gamma, .beta = norm.beta, .residual = residual},
      {.y = y, .mean = norm.mean, .inv_std = norm.inv_std}, norm.running);
}

NormSaved saved(const TrainingNorm& norm, const Tensor& y) {
  return {.x = norm.x,
          .gamma = norm.gamma,
          .beta = norm.beta,
          .y = y,
          .mean = norm.mean,
          .inv_std = norm.inv_std};
}

}  // namespace

Run max_pool(const Shape& shape, const Pool2dOptions& options, bool backward) {
  Backend& backend = backend_of(gpu);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::max, shape, options, DType::bf16);
  const Tensor x = random(shape, 1), y = empty({g.n, g.h_out, g.w_out, g.c}, bf16);
  const Tensor argmax = empty({backend.pooling().workspace_bytes(g)}, {DType::u8, gpu});
  const auto forward = [=, &backend] { backend.pooling().pool2d(g, x, y, argmax); };
  const int64_t bytes = bytes_of({x, y, argmax});
  if (!backward) return {forward, bytes};
  forward();
  // y and x serve as dy and dx: backward reads only the argmax of the forward pass.
  return {[=, &backend] { backend.pooling().pool2d_backward(g, argmax, y, x); }, bytes};
}

Run batch_norm(const Shape& shape, Part part, bool residual) {
  Backend& backend = backend_of(gpu);
  const int64_t channels = shape[3];
  const BatchNormGeometry g{.rows = shape[0] * shape[1] * shape[2],
                            .channels = channels,
                            .n = shape[0],
                            .h = shape[1],
                            .w = shape[2],
                            .activation = {Activation::relu},
                            .residual = residual,
                            .training = true,
                            .dtype = DType::bf16};
  const Tensor x = random(shape, 1), y = empty(shape, bf16);
  const Tensor added = residual ? random(shape, 2) : Tensor();
  const Tensor gamma = ones({channels}, f32), beta = zeros({channels}, f32);
  const Tensor mean = zeros({channels}, f32), inv_std = ones({channels}, f32);
  const RunningStatistics running{zeros({channels}, f32), ones({channels}, f32),
                                  zeros({channels}, f32), ones({channels}, f32), 0.1};
  const auto train = [=, &backend] {
    backend.normalization().batch_norm_train(
        g, {.x = x, .gamma = gamma, .beta = beta, .residual = added},
        {.y = y, .mean = mean, .inv_std = inv_std}, running);
  };
  if (part == Part::train) return {train, bytes_of({x, added, y}), x.bytes()};
  if (part == Part::inference) {
    return {[=, &backend] {
              backend.normalization().batch_norm_inference(
                  g, {.x = x, .gamma = gamma, .beta = beta, .residual = added},
                  {.mean = running.mean, .variance = running.variance}, y);
            },
            bytes_of({x, added, y})};
  }
  train();
  const Tensor dy = random(shape, 3), dx = empty(shape, bf16);
  const Tensor dgamma = empty({channels}, f32), dbeta = empty({channels}, f32);
  const Tensor dresidual = residual ? empty(shape, bf16) : Tensor();
  const auto backward = [=, &backend] {
    backend.normalization().batch_norm_backward(
        g, {.x = x, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .inv_std = inv_std},
        {dy, {}}, {.dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dresidual = dresidual});
  };
  // The slope follows from x without a residual, and dz is dresidual with one.
  if (residual) return {backward, bytes_of({x, y, dy, dx, dresidual}), bytes_of({x, dresidual})};
  return {backward, bytes_of({x, dy, dx}), bytes_of({x, dy})};
}

Run squeeze_excite_backward(const Shape& shape, bool fused) {
  Backend& backend = backend_of(gpu);
  const Shape channels{shape[3]}, per_image = shape.with(1, 1).with(2, 1);
  const BatchNormGeometry g{.rows = shape.count() / shape[3],
                            .channels = shape[3],
                            .n = shape[0],
                            .h = shape[1],
                            .w = shape[2],
                            .activation = {Activation::silu},
                            .training = true,
                            .dtype = DType::bf16};
  const Tensor x = random(shape, 1), dy = random(shape, 2), dx = empty(shape, bf16);
  const Tensor factor = random(per_image, 3), addend = random(per_image, 4);
  const Tensor between = fused ? Tensor() : empty(shape, bf16);
  const Tensor gamma = ones(channels, f32), beta = zeros(channels, f32);
  const Tensor mean = zeros(channels, f32), inv_std = ones(channels, f32);
  const Tensor dgamma = empty(channels, f32), dbeta = empty(channels, f32);
  const auto run = [=, &backend] {
    UnsummedGrads given{dy, addend, factor};
    if (!fused) {
      const auto binary = [&](BinaryOp op, const Tensor& a, const Tensor& b) {
        backend.elementwise().binary(op, BroadcastGeometry::of(shape, per_image, shape),
                                     {.a = a, .b = b}, between);
      };
      binary(BinaryOp::mul, dy, factor);
      binary(BinaryOp::add, between, addend);
      given = {between, {}};
    }
    backend.normalization().batch_norm_backward(
        g, {.x = x, .gamma = gamma, .beta = beta, .mean = mean, .inv_std = inv_std}, given,
        {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
  };
  const int64_t one = x.bytes();
  return {run, (fused ? 3 : 7) * one, 2 * one};
}

Run add_batch_norms(const Shape& shape, bool backward, bool fused) {
  Backend& backend = backend_of(gpu);
  const Shape channels{shape[3]};
  const auto norm = [&](uint64_t stream) {
    return TrainingNorm{.geometry = {.rows = shape.count() / shape[3],
                                     .channels = shape[3],
                                     .n = shape[0],
                                     .h = shape[1],
                                     .w = shape[2],
                                     .activation = {},
                                     .training = true,
                                     .dtype = DType::bf16},
                        .x = random(shape, stream),
                        .gamma = ones(channels, f32),
                        .beta = zeros(channels, f32),
                        .mean = zeros(channels, f32),
                        .inv_std = ones(channels, f32),
                        .running = {zeros(channels, f32), ones(channels, f32), zeros(channels, f32),
                                    ones(channels, f32), 0.1}};
  };
  TrainingNorm own = norm(1);
  const TrainingNorm added = norm(2);
  own.geometry.activation = {Activation::relu};
  const Tensor y = empty(shape, bf16), between = fused ? Tensor() : empty(shape, bf16);
  const auto forward = [=, &backend] {
    if (fused) return backend.fused_add_norms()->normalise(own, added, y);
    train(backend, added.geometry, added, no_tensor, between);
    BatchNormGeometry with_residual = own.geometry;
    with_residual.residual = true;
    train(backend, with_residual, own, between, y);
  };
  const int64_t one = y.bytes();
  if (!backward) return {forward, 3 * one, fused ? 2 * one : 4 * one};
  forward();
  const UnsummedGrads dy{random(shape, 3), random(shape, 4)};
  const auto gradients = [&] {
    return NormGrads{empty(shape, bf16), empty(channels, f32), empty(channels, f32)};
  };
  const AddNormsGradients out{gradients(), gradients()};
  const auto run = [=, &backend] {
    if (fused) return backend.fused_add_norms()->backward(own, added, dy, out);
    BatchNormGeometry with_residual = own.geometry;
    with_residual.residual = true;
    backend.normalization().batch_norm_backward(with_residual, saved(own, y), dy,
                                                {.dx = out.first.dx,
                                                 .dgamma = out.first.dgamma,
                                                 .dbeta = out.first.dbeta,
                                                 .dresidual = between});
    backend.normalization().batch_norm_backward(
        added.geometry, saved(added, no_tensor), {between, {}},
        {.dx = out.second.dx, .dgamma = out.second.dgamma, .dbeta = out.second.dbeta});
  };
  return {run, 6 * one, fused ? 4 * one : 7 * one};
}

Run batch_norm_max_pool(const Shape& shape, const Pool2dOptions& options, bool backward,
                        bool fused) {
  Backend& backend = backend_of(gpu);
  const Pool2dGeometry pool = pool2d_geometry(PoolKind::max, shape, options, DType::bf16);
  const Shape channels{shape[3]}, windows{pool.n, pool.h_out, pool.w_out, pool.c};
  const TrainingNorm norm{.geometry = {.rows = shape.count() / shape[3],
                                       .channels = shape[3],
                                       .n = shape[0],
                                       .h = shape[1],
                                       .w = shape[2],
                                       .activation = {Activation::relu},
                                       .training = true,
                                       .dtype = DType::bf16},
                          .x = random(shape, 1),
                          .gamma = ones(channels, f32),
                          .beta = zeros(channels, f32),
                          .mean = zeros(channels, f32),
                          .inv_std = ones(channels, f32),
                          .running = {zeros(channels, f32), ones(channels, f32),
                                      zeros(channels, f32), ones(channels, f32), 0.1}};
  const Tensor y = empty(windows, bf16);
  const PoolArgmax argmax{.geometry = pool,
                          .x = fused ? empty(windows, bf16) : Tensor(),
                          .positions = empty(windows, {.dtype = DType::u8, .device = gpu})};
  const Tensor between = fused ? Tensor() : empty(shape, bf16);
  const auto forward = [=, &backend] {
    if (fused) return backend.fused_norm_pool()->normalise(norm, argmax, y);
    train(backend, norm.geometry, norm, no_tensor, between);
    backend.pooling().pool2d(pool, between, y, argmax.positions);
  };
  const int64_t whole = norm.x.bytes(), pooled = y.bytes(), positions = argmax.positions.bytes();
  if (!backward) {
    if (fused) return {forward, whole + 2 * pooled + positions, whole};
    return {forward, whole + pooled + positions, 3 * whole};
  }
  forward();
  const UnsummedGrads dy{random(windows, 3), random(windows, 4)};
  const NormGrads of_norm{empty(shape, bf16), empty(channels, f32), empty(channels, f32)};
  const Tensor sum = fused ? Tensor() : empty(windows, bf16);
  const Tensor gathered = fused ? Tensor() : empty(shape, bf16);
  const auto run = [=, &backend] {
    if (fused) return backend.fused_norm_pool()->backward(norm, argmax, dy, of_norm);
    backend.elementwise().binary(BinaryOp::add, BroadcastGeometry::of(windows, windows, windows),
                                 {.a = dy.first, .b = dy.second}, sum);
    backend.pooling().pool2d_backward(pool, argmax.positions, sum, gathered);
    backend.normalization().batch_norm_backward(
        norm.geometry, saved(norm, between), {gathered, {}},
        {.dx = of_norm.dx, .dgamma = of_norm.dgamma, .dbeta = of_norm.dbeta});
  };
  if (fused) return {run, 2 * whole + 3 * pooled + positions, 2 * pooled};
  return {run, 2 * whole + 2 * pooled + positions, 4 * whole + 2 * pooled};
}

}  // namespace whisker::bench
