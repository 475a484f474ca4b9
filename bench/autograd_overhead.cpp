// What the tape costs: processor time per operator, forward and backward, on one-element tensors.
// usage: bench_autograd_overhead [--rounds N]
// One JSON line per operator; the median over rounds of chains of 1,000 operators whose second
// operand, where there is one, also wants a gradient. compare_autograd.py puts PyTorch beside it.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

namespace {

using whisker::Tensor;

constexpr int chain = 1000;

// Processor time of the whole process per operator: comparable on a machine that others use too.
double now_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec)) / chain;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Op>
void measure(const char* name, int rounds, Op op) {
  const Tensor x = whisker::full({1}, 0.5).set_requires_grad();
  const Tensor w = whisker::full({1}, 0.999).set_requires_grad();
  std::vector<double> forward, backward, both;
  for (int round = 0; round < rounds; ++round) {
    x.zero_grad();
    w.zero_grad();
    const double start = now_ns();
    Tensor y = x;
    for (int i = 0; i < chain; ++i) y = op(y, w);
    const double middle = now_ns();
    whisker::backward(y);
    y = {};  // the graph's destruction belongs to its cost
    const double end = now_ns();
    forward.push_back(middle - start);
    backward.push_back(end - middle);
    both.push_back(end - start);
  }
  std::printf(
      "{\"bench\":\"autograd_overhead\",\"op\":\"%s\",\"forward_ns\":%.1f,\"backward_ns\":%.1f,"
      "\"both_ns\":%.1f}\n",
      name, median(forward), median(backward), median(both));
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 300;
  if (argc == 3 && std::string_view(argv[1]) == "--rounds") {
    rounds = std::max(1, std::atoi(argv[2]));
  }
  measure("mul", rounds, [](const Tensor& y, const Tensor& w) { return mul(y, w); });
  measure("add", rounds, [](const Tensor& y, const Tensor& w) { return add(y, w); });
  measure("scale", rounds, [](const Tensor& y, const Tensor&) { return affine(y, 0.999, 0); });
  measure("tanh", rounds, [](const Tensor& y, const Tensor&) { return tanh(y); });
}
