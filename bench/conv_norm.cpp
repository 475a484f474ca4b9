// How long a batch_norm with relu and the convolution behind it take on a GPU in f16, forward and
// backward, unfused and fused (docs/internals/kernels.md, "Fused convolution and batch norm"):
// captured, each as the median of 9 groups of 10 replays. One JSON line per convolution; "chosen"
// is what timing would take. Before anything is timed both ways' results are compared, which must
// agree, and the fused one's with its own of another run: "repeats" says whether sums and
// gradients are the same bits. A case that begins with "end:" is the end of a residual block and
// the first convolution of the next one.
// usage: bench_conv_norm [[end:]N,SIDE,C,C_OUT,KERNEL,STRIDE,PADDING...]
// Without arguments: resnet50's convolutions behind batch norms and resnet18's, 256 images.
#include "bench/layer_numbers.h"
#include "bench/residual_tail_case.h"
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/error.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace whisker;

constexpr Device gpu{DeviceKind::cuda, 0};
constexpr const char* residual_networks[] = {
    "256,56,64,64,3,1,1",       "256,56,64,256,1,1,0",       "256,56,128,128,3,2,1",
    "256,28,128,128,3,1,1",     "256,28,128,512,1,1,0",      "256,28,256,256,3,2,1",
    "256,14,256,256,3,1,1",     "256,14,256,1024,1,1,0",     "256,14,512,512,3,2,1",
    "256,7,512,512,3,1,1",      "256,7,512,2048,1,1,0",      "end:256,56,64,64,3,1,1",
    "end:256,28,128,128,3,1,1", "end:256,14,256,256,3,1,1",  "end:256,7,512,512,3,1,1",
    "end:256,56,256,64,1,1,0",  "end:256,56,256,128,1,1,0",  "end:256,28,512,128,1,1,0",
    "end:256,28,512,256,1,1,0", "end:256,14,1024,256,1,1,0", "end:256,14,1024,512,1,1,0",
    "end:256,7,2048,512,1,1,0"};

/// x and its sums, as a convolution before would have left them.
class ConvNorm {
 public:
  explicit ConvNorm(const std::vector<int64_t>& v)
      : options_{.stride = v[5], .padding = v[6]},
        x_(rand_normal({v[0], v[1], v[1], v[2]}, 0, 1, 1, 1, f32).to(DType::f16)),
        w_(rand_normal({v[3], v[4], v[4], v[2]}, 0, 0.05, 1, 2, f32).to(DType::f16)),
        gamma_(ones({v[2]}, f32)),
        beta_(zeros({v[2]}, f32)),
        sums_(concat({sum(x_.to(DType::f32), {0, 1, 2}), sum(pow(x_.to(DType::f32), 2), {0, 1, 2})},
                     0)
                  .reshape({2, v[2]})) {
    for (const Tensor* leaf : {&x_, &w_, &gamma_, &beta_}) leaf->set_requires_grad();
    const NoGrad once;
    const Tensor y = conv2d(x_, w_, {}, options_);
    dy_ = rand_normal(y.shape(), 0, 1, 1, 3, f32).to(DType::f16);
  }

  Convolved forward() const { return batch_norm_conv2d(x_, norm(), w_, options_); }
  void step() const {
    // What the batch_norm behind would do about the sums, too.
    const Convolved y = forward();
    look_at(y);
    const std::vector<Tensor> leaves{x_, w_, gamma_, beta_};
    grad(y.y, leaves, {.gradient = dy_});
  }
  /// The gradients, y, and its sums where there are any.
  std::vector<Tensor> results() const {
    const Convolved y = forward();
    const std::vector<Tensor> leaves{x_, w_, gamma_, beta_};
    std::vector<Tensor> all = grad(y.y, leaves, {.gradient = dy_});
    all.push_back(y.y.detach());
    if (y.sums.defined()) all.push_back(y.sums);
    return all;
  }
  void look() const { look_at(forward()); }
  bool fused() const { return batch_norm_conv2d_is_fused(x_, norm(), w_, options_); }

 private:
  static constexpr TensorOptions f32{.device = gpu};

  static BatchNormState state_of(const Tensor& sums) {
    BatchNormState state;
    state.sums = sums;
    return state;
  }
  BatchNormOperands norm() const {
    return {.gamma = gamma_,
            .beta = beta_,
            .state = state_of(sums_),
            .options = {.training = true, .activation = {Activation::relu}}};
  }
  static void look_at(const Convolved& y) {
    const NoGrad only_forward;
    const Shape channels{y.y.extent(-1)};
    batch_norm(y.y, ones(channels, f32), zeros(channels, f32), state_of(y.sums),
               {.training = true});
  }

  Conv2dOptions options_;
  Tensor x_, w_, gamma_, beta_, sums_, dy_;
};

double milliseconds(CapturedGraph& graph) {
  constexpr int replays = 10;
  std::vector<double> times;
  for (int group = 0; group < 10; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < replays; ++i) graph.replay();
    backend_of(gpu).synchronize();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count() /
        replays);
  }
  times.erase(times.begin());
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// |a - b| / |b|.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor to = b.to(DType::f32);
  const Tensor difference = a.to(DType::f32) - to;
  return std::sqrt(sum(difference * difference).to_vector()[0] / sum(to * to).to_vector()[0]);
}

void use(ConvNormFusion fusion) {
  CudaOptions options = cuda_options(gpu);
  options.conv_norm_fusion = fusion;
  options.search_seconds = 600;
  set_cuda_options(gpu, options);
}

// Whether every result is the same bits again. Throws internal when fused and unfused are not the
// same within f16's rounding.
template <class AnyCase>
bool check_results(const AnyCase& layers) {
  use(ConvNormFusion::never);
  const std::vector<Tensor> unfused = layers.results();
  use(ConvNormFusion::always);
  for (int settling = 0; settling < 2; ++settling) layers.results();  // the second one is timed
  const std::vector<Tensor> once = layers.results(), again = layers.results();
  bool repeats = true;
  for (size_t i = 0; i < once.size(); ++i) repeats &= distance(again[i], once[i]) == 0;
  for (size_t i = 0; i < unfused.size(); ++i) {  // sums come last, and unfused are none
    const double error = distance(once[i], unfused[i]);
    if (!(error < 0.05))
      fail(ErrorKind::internal, "bench_conv_norm: result {} is off by {}", i, error);
  }
  return repeats;
}

struct Times {
  double forward = 0, step = 0;
  bool fused = false;
};

template <class AnyCase>
Times measure(const AnyCase& layers, ConvNormFusion fusion) {
  use(fusion);
  for (int warm_up = 0; warm_up < 4; ++warm_up) layers.step();
  Times times{.fused = layers.fused()};
  const auto forward = backend_of(gpu).capture([&] { layers.look(); });
  times.forward = milliseconds(*forward);
  const auto step = backend_of(gpu).capture([&] { layers.step(); });
  times.step = milliseconds(*step);
  return times;
}

template <class AnyCase>
void report(const std::string& text, const AnyCase& layers) {
  const bool repeats = check_results(layers);
  const Times unfused = measure(layers, ConvNormFusion::never);
  const Times fused = measure(layers, ConvNormFusion::always);
  const Times chosen = measure(layers, ConvNormFusion::faster);
  fmt::print(
      "{{\"case\":\"{}\",\"unfused_ms\":[{:.4f},{:.4f}],\"fused_ms\":[{:.4f},{:.4f}],"
      "\"possible\":{},\"speedup\":{:.3f},\"chosen\":\"{}\",\"chosen_ms\":{:.4f},"
      "\"repeats\":{}}}\n",
      text, unfused.forward, unfused.step, fused.forward, fused.step, fused.fused,
      unfused.step / fused.step, chosen.fused ? "fused" : "unfused", chosen.step, repeats);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> cases(argv + 1, argv + argc);
  if (cases.empty()) cases.assign(std::begin(residual_networks), std::end(residual_networks));
  for (const std::string& text : cases) {
    if (text.starts_with("end:")) {
      const auto numbers = bench::layer_numbers("bench_conv_norm", text.substr(4));
      report(text, bench::ResidualTailCase(numbers, gpu));
    } else {
      report(text, ConvNorm(bench::layer_numbers("bench_conv_norm", text)));
    }
  }
} catch (const whisker::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
