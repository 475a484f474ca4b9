// Two candidates: oneDNN's direct kernels and, where it has them, Winograd's F(4x4, 3x3) (Lavin and
// Gray 2016), which is 1.2 to 2.7 times as fast on many layers and slower on small ones or few
// channels.
#include "core/cpu/onednn/conv2d_algorithms.h"

#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/support/parallel.h"

#include <algorithm>
#include <chrono>

namespace whisker::cpu {
namespace {

constexpr const char* table_kind = "convolutions";
constexpr auto direct = ConvolutionAlgorithm::direct, winograd = ConvolutionAlgorithm::winograd;

// The fastest of at least one run after the warm-up, of more while they are short.
float milliseconds_of(DnnlConvolution& convolution, Allocator& allocator,
                      const ConvolutionOperands& operands) {
  using Clock = std::chrono::steady_clock;
  constexpr int most_runs = 4;
  constexpr auto time_per_candidate = std::chrono::milliseconds(20);
  convolution.run(allocator, operands);
  auto fastest = Clock::duration::max();
  const auto start = Clock::now();
  for (int i = 0; i < most_runs; ++i) {
    const auto before = Clock::now();
    convolution.run(allocator, operands);
    const auto after = Clock::now();
    fastest = std::min(fastest, after - before);
    if (after - start > time_per_candidate) break;
  }
  return std::chrono::duration<float, std::milli>(fastest).count();
}

// A guess where nothing is timed.
ConvolutionAlgorithm heuristic(const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  return g.c >= 64 && g.c_out >= 64 && g.h_out * g.w_out >= 144 ? winograd : direct;
}

}  // namespace

Conv2dAlgorithms::Conv2dAlgorithms(Allocator& allocator, const CpuOptions& options)
    : allocator_(allocator),
      options_(options),
      table_({table_kind},
             [] {
               return AutotuneTable::Environment{{"library", dnnl_version_text()},
                                                 {"isa", int64_t{dnnl_isa()}},
                                                 {"threads", int64_t{most_threads()}}};
             },
             {name_of(direct), name_of(winograd)}),
      tuner_(table_, table_kind) {}

Conv2dAlgorithms::Tuner::Choice Conv2dAlgorithms::choose(const ConvolutionRequest& request,
                                                         const ConvolutionOperands& operands) {
  std::shared_ptr<DnnlConvolution> first = DnnlConvolution::make(request, direct), second;
  if (options_.winograd) second = DnnlConvolution::make(request, winograd);
  if (!first || !second) return {.algorithm = first ? first : second};
  if (options_.deterministic) {
    return {.algorithm = heuristic(request) == winograd ? second : first};
  }
  if (const auto known = tuner_.stored(request)) {
    return {.algorithm = *known == name_of(winograd) ? second : first};
  }
  return tuner_.fastest(
      request,
      [&](const auto& consider) {
        for (const auto& algorithm : {first, second}) {
          consider(algorithm->name(), [&] { return algorithm; });
        }
      },
      [&](DnnlConvolution& convolution, float) {
        return milliseconds_of(convolution, allocator_, operands);
      },
      [](const DnnlConvolution&) { return true; });
}

int64_t Conv2dAlgorithms::scratch_bytes(const ConvolutionRequest& request) const {
  const auto bytes_of = [&](ConvolutionAlgorithm algorithm) {
    const auto convolution = DnnlConvolution::make(request, algorithm);
    return convolution ? convolution->scratch_bytes() : 0;
  };
  const int64_t of_direct = bytes_of(direct);
  const int64_t of_winograd = options_.winograd ? bytes_of(winograd) : 0;
  if (of_direct == 0 || of_winograd == 0 || !options_.deterministic) {
    return std::max(of_direct, of_winograd);
  }
  return heuristic(request) == winograd ? of_winograd : of_direct;
}

bool Conv2dAlgorithms::hopeless(const ConvolutionRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto* const known = tuner_.find(request);
  return known && !known->algorithm;
}

bool Conv2dAlgorithms::run(const ConvolutionRequest& request, const ConvolutionOperands& operands) {
  const std::lock_guard lock(mutex_);
  auto* choice = tuner_.find(request);
  if (!choice) choice = &tuner_.add(request, choose(request, operands));
  if (!choice->algorithm) return false;
  try {
    choice->algorithm->run(allocator_, operands);
  } catch (const OutOfMemory&) {
    if (options_.deterministic || !options_.winograd) throw;
    const bool is_direct = choice->algorithm->name() == std::string_view(name_of(direct));
    std::shared_ptr<DnnlConvolution> other =
        DnnlConvolution::make(request, is_direct ? winograd : direct);
    if (!other || other->scratch_bytes() >= choice->algorithm->scratch_bytes()) throw;
    other->run(allocator_, operands);
    *choice = {.algorithm = std::move(other), .lacks_memory = true};
  }
  return true;
}

}  // namespace whisker::cpu
