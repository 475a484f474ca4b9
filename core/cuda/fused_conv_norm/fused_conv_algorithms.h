// Which batch norms are fused with their convolution, decided once per shape: the table's choice;
// without one, when a shape comes back while searching is allowed, the faster of both ways, timed
// as replays of their passes one after the other; else unfused. See Note [Fused conv + norm] in
// core/cuda/convolution/convolution.h.
#pragma once

#include "core/cuda/convolution/conv_algorithms.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace whisker::cuda {

/// A batch_norm and the convolution behind it.
struct ConvNormKey {
  /// Forward, normalised and with sums, for all three passes; or the only one that is fused.
  ConvolutionRequest request;
  bool given_sums = false;  ///< the batch_norm need not look for its statistics itself

  /// Every pass that needs an engine.
  std::vector<ConvolutionRequest> passes() const;
  /// Its name in the autotune table.
  std::string describe() const;
};

/// Both ways to compute a norm and its convolution, on memory of its own.
class FusionBenchmark {
 public:
  virtual ~FusionBenchmark() = default;
  virtual void fused() = 0;
  virtual void unfused() = 0;
};

class FusedConvAlgorithms : Autotuned {
 public:
  FusedConvAlgorithms(const Autotuned& tuned, ConvAlgorithms& convolutions)
      : Autotuned(tuned), convolutions_(convolutions) {}

  /// Called where both are timed.
  using MakeBenchmark = std::function<std::unique_ptr<FusionBenchmark>()>;
  /// True where fused() is known to be faster than unfused().
  bool prefers_fused(const ConvNormKey& key, const MakeBenchmark& make);

  /// Forgets the choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    bool fused = false;
    bool settled = false;  // by the table or by timing
  };
  bool possible(const ConvNormKey& key);
  Choice untested(const ConvNormKey& key, const std::string& name);
  Choice tested(const ConvNormKey& key, const std::string& name, const MakeBenchmark& make);
  /// Milliseconds of a replay.
  float time_of(const std::function<void()>& way, float hopeless);

  ConvAlgorithms& convolutions_;
  std::map<std::string, Choice> choices_;  // by ConvNormKey::describe()
};

}  // namespace whisker::cuda
