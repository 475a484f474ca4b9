// docs/course/solutions, as number 0 of each exercise.
#include "tests/apps/course/planted.h"

#include <vector>

namespace whisker {
namespace {
namespace solutions {
#include "docs/course/solutions/adam_step.cpp"
#include "docs/course/solutions/add_broadcast.cpp"
#include "docs/course/solutions/attention.cpp"
#include "docs/course/solutions/avg_pool.cpp"
#include "docs/course/solutions/batch_norm.cpp"
#include "docs/course/solutions/chain_rule.cpp"
#include "docs/course/solutions/conv2d_input.cpp"
#include "docs/course/solutions/conv2d_weight.cpp"
#include "docs/course/solutions/cross_entropy.cpp"
#include "docs/course/solutions/embedding.cpp"
#include "docs/course/solutions/gradient_penalty.cpp"
#include "docs/course/solutions/layer_norm.cpp"
#include "docs/course/solutions/lstm.cpp"
#include "docs/course/solutions/matmul_left.cpp"
#include "docs/course/solutions/matmul_right.cpp"
#include "docs/course/solutions/max_pool.cpp"
#include "docs/course/solutions/mean.cpp"
#include "docs/course/solutions/mul.cpp"
#include "docs/course/solutions/power.cpp"
#include "docs/course/solutions/recomputed_block.cpp"
#include "docs/course/solutions/relu.cpp"
#include "docs/course/solutions/rnn.cpp"
#include "docs/course/solutions/scalar_engine.cpp"
#include "docs/course/solutions/sigmoid.cpp"
#include "docs/course/solutions/tanh.cpp"
// clang-format off: behind scalar_engine.cpp, whose engine it runs
#include "docs/course/exercises/scalar_engine/call.h"
// clang-format on
}  // namespace solutions

template <class F, class G>
Planted solution(const char* exercise, F* in_double, G* in_float) {
  return {exercise, 0, "", run_one(in_double), run_one(in_float)};
}

}  // namespace

void plant_solutions(std::vector<Planted>& all) {
  using D = double;
  using S = float;
  namespace s = solutions;
  for (Planted& one : std::vector<Planted>{
           solution("adam_step", &s::adam_step<D>, &s::adam_step<S>),
           solution("add_broadcast", &s::add_backward<D>, &s::add_backward<S>),
           solution("attention", &s::attention_backward<D>, &s::attention_backward<S>),
           solution("avg_pool", &s::avg_pool_backward<D>, &s::avg_pool_backward<S>),
           solution("batch_norm", &s::batch_norm_backward<D>, &s::batch_norm_backward<S>),
           solution("chain_rule", &s::chain_rule<D>, &s::chain_rule<S>),
           solution("conv2d_input", &s::conv2d_backward_input<D>, &s::conv2d_backward_input<S>),
           solution("conv2d_weight", &s::conv2d_backward_weight<D>, &s::conv2d_backward_weight<S>),
           solution("cross_entropy", &s::cross_entropy_backward<D>, &s::cross_entropy_backward<S>),
           solution("embedding", &s::embedding_backward<D>, &s::embedding_backward<S>),
           solution("gradient_penalty", &s::gradient_penalty<D>, &s::gradient_penalty<S>),
           solution("layer_norm", &s::layer_norm_backward<D>, &s::layer_norm_backward<S>),
           solution("lstm", &s::lstm_backward<D>, &s::lstm_backward<S>),
           solution("matmul_left", &s::matmul_left<D>, &s::matmul_left<S>),
           solution("matmul_right", &s::matmul_right<D>, &s::matmul_right<S>),
           solution("max_pool", &s::max_pool_backward<D>, &s::max_pool_backward<S>),
           solution("mean", &s::mean_backward<D>, &s::mean_backward<S>),
           solution("mul", &s::mul_backward<D>, &s::mul_backward<S>),
           solution("power", &s::power_backward<D>, &s::power_backward<S>),
           solution("recomputed_block", &s::block_backward<D>, &s::block_backward<S>),
           solution("relu", &s::relu_backward<D>, &s::relu_backward<S>),
           solution("rnn", &s::rnn_backward<D>, &s::rnn_backward<S>),
           solution("scalar_engine", &s::scalar_engine<D>, &s::scalar_engine<S>),
           solution("sigmoid", &s::sigmoid_backward<D>, &s::sigmoid_backward<S>),
           solution("tanh", &s::tanh_backward<D>, &s::tanh_backward<S>)}) {
    all.push_back(std::move(one));
  }
}

}  // namespace whisker
