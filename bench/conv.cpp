// How long one convolution with bias and relu takes, forward and both gradients, as a layer between
// others: operands lie in memory as a convolution before and after would have left them.
// usage: bench_conv N,SIDE,C,C_OUT,KERNEL,STRIDE,PADDING...
// Prepares and warms up every geometry, prints "ready", and then for each line "INDEX STEPS" on
// standard input runs that many steps of one and prints a JSON object. compare_conv.py drives it
// and PyTorch in turns, so that both see the same neighbours on the machine.
#include "bench/layer_numbers.h"
#include "core/autograd/autograd.h"
#include "core/error.h"
#include "core/ops/ops.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace whisker;
using Milliseconds = std::chrono::duration<double, std::milli>;

Tensor between_layers(const Shape& shape, uint64_t stream) {
  const Tensor x = rand_normal(shape, 0, 1, 1, stream);
  if (shape[3] < 8) return x;  // an image
  const Tensor w = rand_normal({shape[3], 1, 1, shape[3]}, 0, 0.1, 1, stream + 1);
  const NoGrad no_grad;
  return conv2d(x, w, {});
}

class Layer {
 public:
  Layer(std::string name, const std::vector<int64_t>& v)
      : name_(std::move(name)),
        options_{.stride = v[5], .padding = v[6], .activation = {.kind = Activation::relu}},
        x_(between_layers({v[0], v[1], v[1], v[2]}, 10)),
        w_(rand_normal({v[3], v[4], v[4], v[2]}, 0, 0.1, 1, 20).set_requires_grad()),
        b_(rand_normal({v[3]}, 0, 0.1, 1, 21).set_requires_grad()),
        geometry_(conv2d_geometry(x_.shape(), w_.shape(), true, options_)),
        dy_(between_layers({geometry_.n, geometry_.h_out, geometry_.w_out, geometry_.c_out}, 30)) {
    if (v[2] >= 8) x_.set_requires_grad();
  }

  void step() {
    for (const Tensor* leaf : {&x_, &w_, &b_}) leaf->zero_grad();
    const auto start = std::chrono::steady_clock::now();
    const Tensor y = conv2d(x_, w_, b_, options_);
    const auto middle = std::chrono::steady_clock::now();
    backward(y, {.gradient = dy_});
    forward_ms_.push_back(Milliseconds(middle - start).count());
    backward_ms_.push_back(Milliseconds(std::chrono::steady_clock::now() - middle).count());
  }
  void clear() {
    forward_ms_.clear();
    backward_ms_.clear();
  }
  void print() const {
    const Conv2dGeometry& g = geometry_;
    const auto operations =
        static_cast<double>(2 * g.n * g.h_out * g.w_out * g.c_out * g.kernel_h * g.kernel_w * g.c);
    fmt::print(
        "{{\"layer\":\"{}\",\"forward_ms\":[{:.4f}],\"backward_ms\":[{:.4f}],"
        "\"forward_gflop\":{:.4f},\"backward_gflop\":{:.4f}}}\n",
        name_, fmt::join(forward_ms_, ","), fmt::join(backward_ms_, ","), operations / 1e9,
        operations / 1e9 * (x_.requires_grad() ? 2 : 1));
    std::fflush(stdout);
  }

 private:
  std::string name_;
  Conv2dOptions options_;
  Tensor x_, w_, b_;
  Conv2dGeometry geometry_;
  Tensor dy_;
  std::vector<double> forward_ms_, backward_ms_;
};

}  // namespace

int main(int argc, char** argv) try {
  std::vector<Layer> layers;
  for (int i = 1; i < argc; ++i) {
    layers.emplace_back(argv[i], bench::layer_numbers("bench_conv", argv[i]));
    for (int warm_up = 0; warm_up < 2; ++warm_up) layers.back().step();
  }
  std::puts("ready");
  std::fflush(stdout);
  size_t index = 0;
  int steps = 0;
  while (std::cin >> index >> steps && index < layers.size()) {
    layers[index].clear();
    for (int i = 0; i < steps; ++i) layers[index].step();
    layers[index].print();
  }
} catch (const whisker::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
