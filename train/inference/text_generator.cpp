#include "train/inference/text_generator.h"

#include "core/autograd/autograd.h"
#include "core/backend/recurrent_operands.h"
#include "core/error.h"
#include "core/io/utf8.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace whisker {
namespace {

void check(const Network& network, const GenerationOptions& options) {
  if (network.signature().task() != Task::language_model) {
    fail(ErrorKind::usage,
         "generate: expected a language model (data.kind: language), got a network trained on {}",
         network.signature().examples());
  }
  if (options.length < 0 || options.top_k < 0 || !(options.temperature >= 0) ||
      !std::isfinite(options.temperature)) {
    fail(ErrorKind::usage,
         "generate: expected a length, temperature and top-k of at least 0, got {}, {} and {}",
         options.length, options.temperature, options.top_k);
  }
}

}  // namespace

int64_t draw_token(std::span<const float> logits, const GenerationOptions& options,
                   double uniform) {
  constexpr int64_t first = 2;  // behind padding and unknown
  std::vector<int64_t> order(logits.size() - first);
  std::iota(order.begin(), order.end(), first);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature == 0) return order.front();
  if (options.top_k > 0 && std::ssize(order) > options.top_k) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  const double best = logits[static_cast<size_t>(order.front())];
  std::vector<double> cumulative;
  double sum = 0;
  for (const int64_t token : order) {
    sum += std::exp((logits[static_cast<size_t>(token)] - best) / options.temperature);
    cumulative.push_back(sum);
  }
  const auto drawn = std::ranges::upper_bound(cumulative, uniform * sum);
  const auto at = std::min(drawn - cumulative.begin(), std::ssize(order) - 1);
  return order[static_cast<size_t>(at)];
}

void generate_text(const Network& network, std::string_view prompt,
                   const GenerationOptions& options,
                   const std::function<void(std::string_view)>& write) {
  check(network, options);
  const auto& input = network.input<TextInput>();
  if (find_invalid_utf8(prompt) != std::string_view::npos) {
    fail(ErrorKind::usage, "generate: the prompt is not UTF-8");
  }
  std::vector<int64_t> tokens = input.encode(prompt);
  if (tokens.empty()) fail(ErrorKind::usage, "generate: expected a prompt of at least one token");
  const NoGrad no_grad;
  CarriedStates states;
  PhiloxStream random(options.seed, stream_of("generate"));
  const bool words = input.level == TokenLevel::words;
  for (int64_t i = 0; i < options.length; ++i) {
    const Tensor x = empty({std::ssize(tokens), 1}, {.dtype = DType::i64});
    std::ranges::copy(tokens, x.data<int64_t>().begin());
    const Tensor logits = network.outputs(x, {.states = &states}).to(cpu_device);
    network.check_outputs(logits.data<const float>(),
                          fmt::format("token {} behind the prompt", i + 1));
    const auto last = logits.data<const float>().last(static_cast<size_t>(input.vocabulary.size()));
    tokens = {draw_token(last, options, random.uniform())};
    if (words) write(" ");
    write(input.vocabulary.token(tokens.front()));
  }
}

}  // namespace whisker
