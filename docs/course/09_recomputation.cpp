// Lesson 9: to keep less, compute again; and to differentiate a gradient, record backward, too.
#include "core/autograd/autograd.h"
#include "core/autograd/recompute.h"
#include "core/ops/ops.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr int64_t blocks = 6, units = 16, examples = 32;

// Counts the operators that run, and the bytes that forward keeps.
struct Counter : TapeObserver {
  int operators = 0;
  std::vector<std::pair<const void*, int64_t>> kept;  // memory and its bytes
  size_t block_begin = 0;

  void on_save(const Tensor& x) override { kept.emplace_back(x.raw(), x.bytes()); }
  void on_scope_begin(std::string_view) override { block_begin = kept.size(); }
  void on_record(const Node& node, Tensors inputs, Tensors) override {
    ++operators;
    if (std::string_view(node.name()) != "recompute") return;
    // It stands for the block's operators, and keeps its inputs alone.
    kept.resize(block_begin);
    for (const Tensor* x : inputs) on_save(*x);
  }
  int64_t kept_bytes() const {  // what two operators keep counts once
    const std::map<const void*, int64_t> once(kept.begin(), kept.end());
    int64_t total = 0;
    for (const auto& [memory, bytes] : once) total += bytes;
    return total;
  }
};

Tensor block(const Tensor& x, const Tensor& w) {
  return tanh(matmul(tanh(matmul(x, w)), w));
}

struct Result {
  std::vector<double> gradient;
  int64_t kept_bytes = 0;
  int operators = 0;
};

Result train_step(bool again) {
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < blocks; ++i) {
    weights.push_back(rand_normal({units, units}, 0, 0.25, 1, static_cast<uint64_t>(i), exact));
    weights.back().set_requires_grad();
  }
  Tensor h = rand_normal({examples, units}, 0, 1, 2, 0, exact);
  Counter counter;
  grad_mode.observer = &counter;
  for (const Tensor& w : weights) {
    const auto forward = [&w](const Tensor& x, bool) { return block(x, w); };
    h = again ? recompute("block", forward, h, {{w}}) : block(h, w);
  }
  const Tensor loss = mean(h * h);
  const int64_t kept = counter.kept_bytes();
  backward(loss);
  grad_mode.observer = nullptr;
  return {weights[0].grad().to_vector(), kept, counter.operators};
}

// P = sum of g^2, where g is the gradient of sum(tanh(x)).
void gradient_of_a_gradient() {
  const Tensor x = from_vector({0.5, -1, 2}, {3}, exact).set_requires_grad();
  const Tensor g = grad(sum(tanh(x)), {{x}}, {.create_graph = true})[0];
  backward(sum(g * g));
  const std::vector<double> dx = x.grad().to_vector();
  std::printf("\ndP/dx     %.6f %.6f %.6f\n", dx[0], dx[1], dx[2]);
  const NoGrad off;
  const Tensor y = tanh(x);
  const Tensor slope = affine(y * y, -1, 1);
  const std::vector<double> formula = (-4.0 * y * slope * slope).to_vector();
  std::printf("-4 y g^2  %.6f %.6f %.6f\n", formula[0], formula[1], formula[2]);
}

}  // namespace

int main() {
  const Result kept = train_step(false), again = train_step(true);
  std::printf("             kept      operators\n");
  std::printf("all          %5lld B  %9d\n", static_cast<long long>(kept.kept_bytes),
              kept.operators);
  std::printf("recomputed   %5lld B  %9d\n", static_cast<long long>(again.kept_bytes),
              again.operators);
  std::printf("the same gradients, bit for bit: %s\n",
              kept.gradient == again.gradient ? "yes" : "no");
  gradient_of_a_gradient();
}
