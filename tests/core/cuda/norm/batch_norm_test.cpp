// What LargeShapes (tests/core/ops/op_table/large_test.cpp), which has the shapes, does not say of
// batch normalisation on the GPU: gradients with a factor and an addend, a mean far from 0,
// parameters off the 16-byte grid, repetition.
#include "core/autograd/autograd.h"
#include "core/backend/normalization.h"
#include "core/backend/unsummed_grads.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/norm_state.h"
#include "tests/support/tolerance.h"

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

using CudaBatchNorm = GpuTest;

BatchNormState state_of(const Tensor& x) {
  return norm_state(x.extent(-1), {.device = x.device()});
}

/// A norm of images x, after its forward pass.
struct ImageNorm {
  ImageNorm(const Shape& shape, DType dtype, ActivationSpec f, bool residual)
      : g{.rows = shape[0] * shape[1] * shape[2],
          .channels = shape[3],
          .n = shape[0],
          .h = shape[1],
          .w = shape[2],
          .activation = f,
          .residual = residual,
          .training = true,
          .dtype = dtype},
        x(drawn(shape, 1, dtype).to(gpu)),
        added(residual ? drawn(shape, 2, dtype).to(gpu) : Tensor()),
        gamma(drawn({shape[3]}, 3, DType::f32).to(gpu)),
        beta(drawn({shape[3]}, 4, DType::f32).to(gpu)),
        y(empty_like(x)),
        mean(empty_like(gamma)),
        inv_std(empty_like(gamma)) {
    kernels().batch_norm_train(g, {.x = x, .gamma = gamma, .beta = beta, .residual = added},
                               {.y = y, .mean = mean, .inv_std = inv_std}, {});
  }
  static Tensor drawn(const Shape& shape, uint64_t stream, DType dtype) {
    return rand_normal(shape, 0.5, 1, 6, stream, {.device = reference_device}).to(dtype);
  }
  static NormalizationKernels& kernels() { return backend_of(gpu).normalization(); }
  /// dx, dgamma, dbeta and where there is a residual its gradient.
  std::vector<std::vector<double>> gradients(const UnsummedGrads& dy) const {
    const NormGrads out{.dx = empty_like(x),
                        .dgamma = empty_like(gamma),
                        .dbeta = empty_like(beta),
                        .dresidual = g.residual ? empty_like(x) : Tensor()};
    kernels().batch_norm_backward(
        g, {.x = x, .gamma = gamma, .beta = beta, .y = y, .mean = mean, .inv_std = inv_std}, dy,
        out);
    std::vector<std::vector<double>> all;
    for (const Tensor& one : {out.dx, out.dgamma, out.dbeta, out.dresidual}) {
      if (one.defined()) all.push_back(one.to_vector());
    }
    return all;
  }

  BatchNormGeometry g;
  Tensor x, added, gamma, beta, y, mean, inv_std;
};

const Shape image_shapes[] = {{2, 3, 5, 8},   {1, 7, 7, 24},   {41, 1, 1, 16},
                              {5, 2, 3, 3},   {1, 3, 6, 5},    {4, 14, 14, 136},
                              {33, 7, 7, 72}, {3, 56, 56, 32}, {2, 12, 13, 515}};

// dy * factor + addend within the norm's backward, against the same norm of that sum.
TEST_F(CudaBatchNorm, MultipliesAndAddsPerImageAndChannel) {
  const std::pair<Activation, bool> cases[] = {
      {Activation::none, false}, {Activation::none, true},   {Activation::relu, false},
      {Activation::relu, true},  {Activation::relu6, false}, {Activation::hard_swish, false},
      {Activation::silu, false}};
  for (const Shape& shape : image_shapes) {
    const Shape per_channel{shape[0], 1, 1, shape[3]};
    for (const DType dtype : dtypes) {
      const Tensor dy = ImageNorm::drawn(shape, 5, dtype);
      for (const int64_t offset : {0, 1}) {  // at an odd element no packs can be read
        const auto placed = [&](uint64_t stream, Device device) {
          const Tensor all =
              ImageNorm::drawn({per_channel.count() + offset}, stream, dtype).to(device);
          return Tensor(all.storage(), offset, per_channel, dtype);
        };
        const auto wide = [](const Tensor& t) { return t.to(DType::f64); };
        const Tensor sum =
            wide(dy) * wide(placed(6, reference_device)) + wide(placed(7, reference_device));
        for (const auto& [activation, residual] : cases) {
          SCOPED_TRACE(fmt::format("{} {} {}{} offset {}", shape, dtype, name_of(activation),
                                   residual ? " residual" : "", offset));
          const ImageNorm norm(shape, dtype, {activation}, residual);
          ASSERT_TRUE(ImageNorm::kernels().scales_grads(norm.g));
          expect_results_agree(norm.gradients({sum.to(dtype).to(gpu), {}}),
                               norm.gradients({dy.to(gpu), placed(7, gpu), placed(6, gpu)}),
                               tolerance(dtype, 16));
        }
      }
    }
  }
}

TEST_F(CudaBatchNorm, BehindItSqueezeExciteAgreesWithTheReference) {
  for (const Shape& shape : image_shapes) {
    for (const DType dtype : dtypes) {
      for (const Activation f : {Activation::none, Activation::hard_swish, Activation::silu}) {
        expect_agreement(
            {.name = fmt::format("{} {} {}", shape, dtype, name_of(f)),
             .shapes = {shape, {shape[3]}, {shape[3]}},
             .function =
                 [f](Operands x) {
                   return batch_norm_excite(
                       x[0], {x[1], x[2], state_of(x[0]), {.training = true, .activation = {f}}},
                       [](const Tensor& average) { return sigmoid(average); });
                 },
             .tolerance = tolerance(dtype, 64 * shape.count() / shape[3]),
             .dtype = dtype,
             .device = gpu});
      }
    }
  }
}

// Values far from 0: plain sums of squares would cancel.
TEST_F(CudaBatchNorm, StatisticsSurviveALargeMean) {
  for (const Shape& shape : {Shape{50003, 8}, {3001, 130}, {40, 64}}) {
    const Tensor host =
        affine(rand_normal(shape, 0, 1, 3, 0, {.device = reference_device}), 1, 500);
    const auto statistics = [&](Device device) {
      const Tensor x = host.to(device);
      const BatchNormState state = state_of(x);
      const TensorOptions options{.device = device};
      batch_norm(x, ones({shape[1]}, options), zeros({shape[1]}, options), state,
                 {.training = true});
      return std::pair(state.pending_mean.to_vector(), state.pending_var.to_vector());
    };
    const auto [mean, variance] = statistics(reference_device);
    const auto [got_mean, got_variance] = statistics(gpu);
    EXPECT_TRUE(close(got_mean, mean, 1e-6, 0)) << fmt::format("{} mean", shape);
    EXPECT_TRUE(close(got_variance, variance, 1e-4, 0)) << fmt::format("{} variance", shape);
  }
}

TEST_F(CudaBatchNorm, AcceptsUnalignedParameters) {
  for (const DType dtype : dtypes) {
    expect_agreement({.name = fmt::format("{}", dtype),
                      .shapes = {{500, 64}, {65}, {65}},
                      .function =
                          [](Operands x) {
                            return batch_norm(x[0], slice(x[1], 0, 1, 65), slice(x[2], 0, 1, 65),
                                              state_of(x[0]),
                                              {.training = true, .activation = {Activation::silu}});
                          },
                      .tolerance = tolerance(dtype, 16 * 500),
                      .dtype = dtype,
                      .device = gpu});
  }
}

TEST_F(CudaBatchNorm, RepeatsBitForBit) {
  for (const Shape& shape :
       {Shape{12544, 512}, {50176, 64}, {9001, 72}, {18001, 120}, {3001, 130}}) {
    const auto results = [&] {
      const Tensor x = rand_normal(shape, 0, 1, 4, 0, {.device = gpu}).to(DType::bf16);
      const Tensor gamma = rand_normal({shape[1]}, 1, 0.1, 4, 1, {.device = gpu});
      const Tensor beta = rand_normal({shape[1]}, 0, 0.1, 4, 2, {.device = gpu});
      for (const Tensor* leaf : {&x, &gamma, &beta}) leaf->set_requires_grad();
      const Tensor y = batch_norm(x, gamma, beta, state_of(x),
                                  {.training = true, .activation = {Activation::relu}});
      backward(y, {.gradient = rand_normal(shape, 0, 1, 4, 3, {.device = gpu}).to(DType::bf16)});
      return std::vector{y.to_vector(), x.grad().to_vector(), gamma.grad().to_vector(),
                         beta.grad().to_vector()};
    };
    const auto once = results(), again = results();
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(once[i] == again[i]) << fmt::format("{} result {}", shape, i);
  }
}

}  // namespace
}  // namespace whisker::test
