// The algorithms of one kind of request on a GPU: see Note [Choosing an algorithm] in
// core/backend/autotuner.h. Choosing compiles, allocates and waits, which a capture does not allow:
// warm up first.
#pragma once

#include "core/backend/autotuner.h"
#include "core/cuda/autotune/algorithm.h"
#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/runtime/add_time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace whisker::cuda {

/// Version of Whisker's kernels and of the table's words: raise it when a kernel is added or
/// becomes faster, or a word changes, so that earlier choices are timed again.
inline constexpr int64_t own_kernels = 8;

/// Kinds of requests in the table; stored ones call gemms products.
inline constexpr const char *convolution_rows = "convolutions", *gemm_rows = "products";

template <class Request, class Operands>
class TimedAlgorithms : protected CudaKernels {
 public:
  /// `kind` is that of the rows in the table.
  TimedAlgorithms(CudaDevice& device, const char* kind)
      : CudaKernels(device), tuner_(device.table, kind) {}
  virtual ~TimedAlgorithms() = default;

  void run(const Request& request, const Operands& operands) {
    Choice* choice = tuner_.find(request);
    if (!choice) {
      const AddTime timer(context_.start_times().plans);
      choice = &tuner_.add(request, first(request, operands));
    } else if (!choice->settled && device_.budget.may_search(context_.stream())) {
      search(request, operands, *choice);
    }
    const Pointer algorithm = choice->algorithm;
    const Scratch workspace(allocator_, algorithm->workspace_bytes());
    algorithm->run(context_.site(), operands, workspace.data());
  }
  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { tuner_.clear(); }

 protected:
  using Pointer = std::shared_ptr<Algorithm<Operands>>;
  using Choice = typename Autotuner<Request, Algorithm<Operands>>::Choice;
  /// What propose() works with.
  struct Search {
    std::function<void(const std::string& name, const std::function<Pointer()>& make)> consider;
    std::function<bool()> has_found;
    std::function<bool(double seconds)> pays;  ///< true where so much more time may pay
  };

  /// The algorithm of that name in the table; null where it is none for the request.
  virtual Pointer named(const Request& request, const Operands& operands,
                        const std::string& name) = 0;
  /// The choice where nothing is known.
  virtual Choice untimed(const Request& request, const Operands& operands) = 0;
  /// Considers the candidates; `present` is the choice so far.
  virtual void propose(const Request& request, const Operands& operands, const Pointer& present,
                       const Search& search) = 0;
  /// Settles what candidates are made of, before they are timed within a budget of their own.
  virtual void prepare(const Request& /*request*/, const Operands& /*operands*/) {}

  bool fits(const Algorithm<Operands>& algorithm) const {
    try {
      const Scratch probe(allocator_, algorithm.workspace_bytes());
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  }

 private:
  Choice first(const Request& request, const Operands& operands) {
    if (const auto name = tuner_.stored(request)) {
      Pointer known = named(request, operands, *name);
      if (known && (options_.deterministic || fits(*known))) {
        return {.algorithm = std::move(known), .settled = true};
      }
    }
    return untimed(request, operands);
  }

  void search(const Request& request, const Operands& operands, Choice& choice) {
    constexpr double longest_seconds = 1.5;  // for one request
    choice.settled = true;
    float least = std::numeric_limits<float>::infinity();
    try {
      prepare(request, operands);
      const SearchBudget::Use use(device_.budget);
      Stopwatch stopwatch(context_, allocator_);
      const Choice fastest = tuner_.fastest(
          request,
          [&](const auto& consider) {
            propose(request, operands, choice.algorithm,
                    {.consider = [&](const auto& name,
                                     const auto& make) { least = consider(name, make); },
                     .has_found = [&] { return std::isfinite(least); },
                     .pays =
                         [&](double seconds) {
                           return std::isinf(least) ||
                                  use.seconds() + seconds <=
                                      std::min(longest_seconds, device_.budget.worth(least));
                         }});
          },
          [&](const Algorithm<Operands>& candidate, float hopeless) {
            const DriverMemory workspace(allocator_, candidate.workspace_bytes());
            return stopwatch.median(
                [&] { candidate.run(context_.site(), operands, workspace.data()); }, hopeless);
          },
          // Timing used memory outside the allocator, which may have a lower limit.
          [&](const Algorithm<Operands>& candidate) { return fits(candidate); });
      // Where all fail, the GPU itself may: its error says more than those of the candidates.
      if (!fastest.algorithm) check(cudaStreamSynchronize(context_.stream()), "timing algorithms");
      if (fastest.algorithm) choice.algorithm = fastest.algorithm;
    } catch (const OutOfMemory&) {
      // Untimed in this run.
    }
  }

  Autotuner<Request, Algorithm<Operands>> tuner_;
};

}  // namespace whisker::cuda
