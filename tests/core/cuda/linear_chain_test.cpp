// Chains of small dense layers on the GPU give the bits that the layers give one by one: both add
// up in the same order and round at the same places.
#include "core/autograd.h"
#include "core/linear_chains.h"
#include "core/ops.h"
#include "tests/core/cuda/gpu.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

constexpr ActivationSpec activations[] = {{Activation::relu},
                                          {Activation::tanh},
                                          {},
                                          {Activation::sigmoid},
                                          {Activation::leaky_relu, 0.2f}};

/// Layers of the given features, the first one's input before them.
struct Chain {
  Chain(int64_t rows, const std::vector<int64_t>& features, DType dtype) {
    uint64_t key = 1;
    const auto random = [&](const Shape& shape, double size) {
      return rand_normal(shape, 0, size, 7, key++).to(dtype).to(gpu);
    };
    x = random({rows, features[0]}, 1);
    for (size_t l = 0; l + 1 < features.size(); ++l) {
      const double size = 1.5 / std::sqrt(static_cast<double>(features[l]));
      layers.push_back({random({features[l + 1], features[l]}, size),
                        l % 3 == 1 ? Tensor() : random({features[l + 1]}, 0.1),
                        activations[l % std::size(activations)]});
    }
  }
  std::vector<Tensor*> operands() {
    std::vector<Tensor*> all{&x};
    for (LinearOperands& layer : layers) {
      all.push_back(&layer.w);
      if (layer.b.defined()) all.push_back(&layer.b);
    }
    return all;
  }

  Tensor x;
  std::vector<LinearOperands> layers;
};

Tensor one_by_one(const Tensor& x, std::span<const LinearOperands> layers) {
  Tensor y = x;
  for (const auto& [w, b, f] : layers) y = linear(y, w, b, f);
  return y;
}

/// The result and the gradients of the operands that `wants` one, from a gradient of mixed signs.
template <class Function>
std::vector<std::vector<double>> results(Chain chain, const std::vector<bool>& wants,
                                         Function function) {
  std::vector<Tensor> wanted;
  const std::vector<Tensor*> operands = chain.operands();
  for (size_t i = 0; i < operands.size(); ++i) {
    *operands[i] = operands[i]->detach();
    if (wants[i]) wanted.push_back(operands[i]->set_requires_grad());
  }
  const Tensor y = function(chain.x, chain.layers);
  const Tensor dy = rand_normal(y.shape(), 0, 1, 7, 99).to(y.dtype()).to(gpu);
  std::vector<std::vector<double>> all{y.to_vector()};
  for (const Tensor& gradient : grad(y, wanted, {.gradient = dy})) {
    all.push_back(gradient.to_vector());
  }
  return all;
}

void expect_same_bits(Chain chain, const std::vector<bool>& wants) {
  ASSERT_EQ(linear_chain_length(chain.x, chain.layers), chain.layers.size());
  const auto joined = results(
      chain, wants, [](const Tensor& x, const auto& layers) { return linear_chain(x, layers); });
  const auto apart = results(
      chain, wants, [](const Tensor& x, const auto& layers) { return one_by_one(x, layers); });
  EXPECT_EQ(joined, apart);
}

class CudaLinearChains : public GpuTest {};

TEST_F(CudaLinearChains, GiveTheBitsOfLayersOneByOne) {
  const std::vector<int64_t> shapes[] = {{32, 32, 32},
                                         {8, 8, 1},
                                         {64, 64, 64, 64},
                                         {16, 24, 5},
                                         {40, 56, 3},
                                         {32, 64, 32, 10},
                                         std::vector<int64_t>(13, 32)};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& features : shapes) {
      for (const int64_t rows : {1, 7, 32, 127, 128}) {
        SCOPED_TRACE(fmt::format("{} {} rows {}", dtype, rows, fmt::join(features, "-")));
        Chain chain(rows, features, dtype);
        expect_same_bits(chain, std::vector<bool>(chain.operands().size(), true));
      }
    }
  }
}

TEST_F(CudaLinearChains, GiveWhatIsWantedAlone) {
  Chain chain(20, {32, 16, 48, 8, 4}, DType::f32);
  const size_t count = chain.operands().size();
  for (size_t only = 0; only < count; ++only) {
    std::vector<bool> wants(count, false);
    wants[only] = true;
    SCOPED_TRACE(only);
    expect_same_bits(chain, wants);
  }
}

TEST_F(CudaLinearChains, AreOneNodeOfTheTape) {
  const Chain chain(32, std::vector<int64_t>(21, 32), DType::f32);
  chain.layers.front().w.set_requires_grad();
  const Tensor y = linear_chain(chain.x, chain.layers);
  EXPECT_STREQ(y.node()->name(), "linear_chain");
  EXPECT_EQ(y.node()->inputs().size(), 41U);
}

TEST_F(CudaLinearChains, EndWhereALayerIsNotSmallOrDoesNotFit) {
  const auto length = [](int64_t rows, const std::vector<int64_t>& features) {
    const Chain chain(rows, features, DType::f32);
    return linear_chain_length(chain.x, chain.layers);
  };
  EXPECT_EQ(length(32, {32, 72, 32, 32}), 0U);
  EXPECT_EQ(length(32, {32, 32, 32, 72, 32}), 2U);
  EXPECT_EQ(length(129, {32, 32, 32}), 0U);
  EXPECT_EQ(length(4, {9, 8, 8}), 0U) << "rows of weights that are no packs of 16 bytes";
  EXPECT_EQ(length(4, {8, 9, 8}), 1U);
  EXPECT_EQ(length(4, std::vector<int64_t>(80, 8)), 32U);
  Chain gelu(4, {8, 8, 8}, DType::f32);
  gelu.layers[1].activation = {Activation::gelu};
  EXPECT_EQ(linear_chain_length(gelu.x, gelu.layers), 1U);
  Chain shifted(4, {8, 8, 8}, DType::f32);
  shifted.layers[0].w = reshape(slice(zeros({65}, shifted.x.options()), 0, 1, 65), {8, 8});
  EXPECT_EQ(linear_chain_length(shifted.x, shifted.layers), 0U);
  Chain broken(4, {8, 8, 8}, DType::f32);
  broken.layers[1].w = zeros({8, 9}, broken.x.options());
  EXPECT_EQ(linear_chain_length(broken.x, broken.layers), 1U);
  EXPECT_THROW(linear_chain(broken.x, broken.layers), Error);
}

TEST_F(CudaLinearChains, KeepNaN) {
  const Chain chain(9, {8, 8, 8}, DType::f32);
  std::vector<double> values = chain.x.to_vector();
  values[3 * 8 + 1] = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = from_vector(values, {9, 8}, chain.x.options());
  const std::vector<double> y = linear_chain(x, chain.layers).to_vector();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 8 == 3) << i;
}

TEST_F(CudaLinearChains, RefuseASecondDerivative) {
  const Chain chain(4, {8, 8, 8}, DType::f32);
  chain.x.set_requires_grad();
  const Tensor y = sum(linear_chain(chain.x, chain.layers));
  const Tensor inputs[] = {chain.x};
  try {
    grad(y, inputs, {.create_graph = true});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("linear_chain"),
                                             testing::HasSubstr("fuse: false")));
  }
}

}  // namespace
}  // namespace whisker::test
