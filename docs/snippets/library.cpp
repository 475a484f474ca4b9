// docs/guide/library.md: XOR with two dense layers, then two textures with a convolution.
#include <cstdio>

#include "core/ops/ops.h"
#include "layers/layers.h"
#include "optim/optimizer.h"

using namespace whisker;

double train(Sequential& net, const Tensor& x, const Tensor& labels, int steps) {
  ParameterArena arena(net.parameters(), cpu_device, /*seed=*/1);
  Optimizer adam(arena, {.kind = OptimizerKind::adam});
  Tensor loss;
  for (int step = 0; step < steps; ++step) {
    arena.zero_grad();
    loss = cross_entropy(net(x, {.training = true}), labels);
    backward(loss);
    adam.step(/*learning_rate=*/0.02);
  }
  return loss.item();
}

int main() {
  Sequential xor_net;
  xor_net.add<Dense>({.in_features = 2, .units = 8, .activation = {Activation::tanh}});
  xor_net.add<Dense>({.in_features = 8, .units = 2});
  const Tensor bits = from_vector({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const double xor_loss = train(xor_net, bits, from_vector({0, 1, 1, 0}, {4}, {.dtype = DType::i64}), 300);

  Sequential cnn;  // images are (N, H, W, C)
  cnn.add<Conv2D>({.in_channels = 1, .filters = 4, .kernel = 3, .activation = {Activation::relu}});
  cnn.make<GlobalAvgPool2D>();
  cnn.add<Dense>({.in_features = 4, .units = 2});
  const Tensor smooth = rand_uniform({8, 8, 8, 1}, 0.4, 0.6, 1, 1), rough = rand_uniform({8, 8, 8, 1}, 0, 1, 1, 2);
  const double cnn_loss = train(cnn, concat({smooth, rough}, 0), concat({zeros({8}, {.dtype = DType::i64}), ones({8}, {.dtype = DType::i64})}, 0), 300);

  std::printf("xor %.4f, textures %.4f\n", xor_loss, cnn_loss);
  return xor_loss < 0.1 && cnn_loss < 0.1 ? 0 : 1;
}
