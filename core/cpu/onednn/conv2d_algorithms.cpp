// Two candidates: oneDNN's direct kernels and, where it has them, Winograd's F(4x4, 3x3) (Lavin and
// Gray 2016), which is 1.2 to 2.7 times as fast on many layers and slower on small ones or few
// channels.
#include "core/cpu/onednn/conv2d_algorithms.h"

#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/support/parallel.h"
#include "core/error.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace whisker::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Per candidate: at least one run after the warm-up, more while they are short.
constexpr int most_runs = 4;
constexpr auto time_per_candidate = std::chrono::milliseconds(20);

Clock::duration fastest_run(DnnlConvolution& convolution, Allocator& allocator,
                            const ConvolutionOperands& operands, char* scratch) {
  convolution.run(allocator, operands, scratch);
  auto fastest = Clock::duration::max();
  const auto start = Clock::now();
  for (int i = 0; i < most_runs; ++i) {
    const auto before = Clock::now();
    convolution.run(allocator, operands, scratch);
    const auto after = Clock::now();
    fastest = std::min(fastest, after - before);
    if (after - start > time_per_candidate) break;
  }
  return fastest;
}

// False when memory is short.
bool try_allocate(std::optional<Scratch<char>>& scratch, Allocator& allocator, int64_t bytes) {
  try {
    scratch.emplace(allocator, bytes);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

constexpr const char* table_kind = "convolutions";

std::string_view name_of(ConvolutionAlgorithm algorithm) {
  return algorithm == ConvolutionAlgorithm::winograd ? "winograd" : "direct";
}

std::optional<ConvolutionAlgorithm> algorithm_named(std::string_view name) {
  for (const auto algorithm : {ConvolutionAlgorithm::direct, ConvolutionAlgorithm::winograd}) {
    if (name == name_of(algorithm)) return algorithm;
  }
  return std::nullopt;
}

// A guess where nothing is timed.
ConvolutionAlgorithm heuristic(const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  const bool large = g.c >= 64 && g.c_out >= 64 && g.h_out * g.w_out >= 144;
  return large ? ConvolutionAlgorithm::winograd : ConvolutionAlgorithm::direct;
}

}  // namespace

Conv2dAlgorithms::Conv2dAlgorithms()
    : table_({table_kind},
             [] {
               return AutotuneTable::Environment{{"library", dnnl_version_text()},
                                                 {"isa", int64_t{dnnl_isa()}},
                                                 {"threads", int64_t{most_threads()}}};
             },
             {std::string(name_of(ConvolutionAlgorithm::direct)),
              std::string(name_of(ConvolutionAlgorithm::winograd))}) {}

Conv2dAlgorithms::Choice Conv2dAlgorithms::choose(Allocator& allocator, const CpuOptions& options,
                                                  ConvolutionRequest request,
                                                  const ConvolutionOperands& operands) {
  request.algorithm = ConvolutionAlgorithm::direct;
  Plan direct = DnnlConvolution::make(request);
  if (!options.winograd) return {std::move(direct)};
  request.algorithm = ConvolutionAlgorithm::winograd;
  Plan winograd = DnnlConvolution::make(request);
  if (!winograd) return {std::move(direct)};
  if (!direct) return {std::move(winograd)};
  const auto pick = [&](ConvolutionAlgorithm algorithm) -> Choice {
    return {algorithm == ConvolutionAlgorithm::winograd ? std::move(winograd) : std::move(direct)};
  };
  if (options.deterministic) return pick(heuristic(request));
  request.algorithm = ConvolutionAlgorithm::direct;  // the key names no algorithm
  if (const auto known = table_.find(table_kind, request.describe())) {
    if (const auto algorithm = algorithm_named(*known)) return pick(*algorithm);
  }
  const int64_t direct_bytes = direct->scratch_bytes(), winograd_bytes = winograd->scratch_bytes();
  std::optional<Scratch<char>> scratch;
  if (!try_allocate(scratch, allocator, std::max(direct_bytes, winograd_bytes))) {
    scratch.emplace(allocator,
                    std::min(direct_bytes, winograd_bytes));  // throws where even that does not fit
    return {.plan = winograd_bytes < direct_bytes ? std::move(winograd) : std::move(direct),
            .for_want_of_memory = true};
  }
  const auto direct_time = fastest_run(*direct, allocator, operands, scratch->data());
  const auto winograd_time = fastest_run(*winograd, allocator, operands, scratch->data());
  const auto faster =
      winograd_time < direct_time ? ConvolutionAlgorithm::winograd : ConvolutionAlgorithm::direct;
  table_.set(table_kind, request.describe(), std::string(name_of(faster)));
  return pick(faster);
}

// The algorithm with less scratch memory; null where there is none or the options forbid it.
Conv2dAlgorithms::Plan Conv2dAlgorithms::smaller(const CpuOptions& options,
                                                 ConvolutionRequest request, int64_t than) {
  if (options.deterministic || !options.winograd) return nullptr;
  for (const auto algorithm : {ConvolutionAlgorithm::direct, ConvolutionAlgorithm::winograd}) {
    request.algorithm = algorithm;
    Plan plan = DnnlConvolution::make(request);
    if (plan && plan->scratch_bytes() < than) return plan;
  }
  return nullptr;
}

int64_t Conv2dAlgorithms::scratch_bytes(const CpuOptions& options, ConvolutionRequest request) {
  const auto bytes_of = [&](ConvolutionAlgorithm algorithm) {
    request.algorithm = algorithm;
    const Plan plan = DnnlConvolution::make(request);
    return plan ? plan->scratch_bytes() : 0;
  };
  const int64_t direct = bytes_of(ConvolutionAlgorithm::direct);
  const int64_t winograd = options.winograd ? bytes_of(ConvolutionAlgorithm::winograd) : 0;
  if (direct == 0 || winograd == 0 || !options.deterministic) return std::max(direct, winograd);
  return heuristic(request) == ConvolutionAlgorithm::winograd ? winograd : direct;
}

bool Conv2dAlgorithms::hopeless(const ConvolutionRequest& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = algorithms_.find(request);
  return found != algorithms_.end() && !found->second.plan;
}

bool Conv2dAlgorithms::run(Allocator& allocator, const CpuOptions& options,
                           ConvolutionRequest request, const ConvolutionOperands& operands) {
  const std::lock_guard lock(mutex_);
  request.algorithm = ConvolutionAlgorithm::direct;  // the key names no algorithm
  auto found = algorithms_.find(request);
  if (found == algorithms_.end()) {
    found = algorithms_.emplace(request, choose(allocator, options, request, operands)).first;
  }
  auto& [plan, for_want_of_memory] = found->second;
  if (!plan) return false;
  std::optional<Scratch<char>> scratch;
  if (!try_allocate(scratch, allocator, plan->scratch_bytes())) {
    Plan other = smaller(options, request, plan->scratch_bytes());
    scratch.emplace(allocator, (other ? other : plan)->scratch_bytes());
    if (other) {
      plan = std::move(other);
      for_want_of_memory = true;
    }
  }
  plan->run(allocator, operands, scratch->data());
  return true;
}

}  // namespace whisker::cpu
