// Which links of a chain are joined, decided once per shape: the table's choice; without one, when
// a shape comes back while searching is allowed, the faster of both ways, timed as replays of
// their passes one after the other; else apart. See Note [Chains] in
// core/cuda/convolution/convolution.h.
#pragma once

#include "core/cuda/convolution/convolution_plans.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace whisker::cuda {

/// A batch_norm and the convolution behind it.
struct ChainLink {
  /// Forward, normalised and with sums, for all three passes; or the only one that is joined.
  ConvolutionRequest request;
  bool given_sums = false;  ///< the batch_norm need not look for its statistics itself

  /// Every pass that needs an engine.
  std::vector<ConvolutionRequest> passes() const;
  /// The plan table's word for it.
  std::string describe() const;
};

class ChainPlans {
 public:
  ChainPlans(Context& context, Allocator& allocator, const CudaOptions& options,
             SearchBudget& budget, PlanTable& table, ConvolutionPlans& convolutions)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table),
        convolutions_(convolutions) {}

  /// Enqueues one way to compute all of a link, on memory of its own.
  using Way = std::function<void()>;
  /// True where joined() is known to be faster than apart().
  bool prefers_joined(const ChainLink& link, const Way& joined, const Way& apart);

  /// Forgets the choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    bool joined = false;
    bool settled = false;  // by the table or by timing
  };
  bool possible(const ChainLink& link);
  Choice untested(const ChainLink& link, const std::string& name);
  Choice tested(const ChainLink& link, const std::string& name, const Way& joined,
                const Way& apart);
  /// Milliseconds of a replay.
  float time_of(const Way& way, float hopeless);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  ConvolutionPlans& convolutions_;
  std::map<std::string, Choice> choices_;  // by ChainLink::describe()
};

}  // namespace whisker::cuda
