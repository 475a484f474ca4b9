// `whisker evaluate --calibrate`: a temperature fitted to what was measured, written with the
// weights as a new file.
#pragma once

#include "apps/commands/evaluate_arguments.h"
#include "core/communicator/rank_group.h"
#include "core/io/outputs.h"
#include "train/metrics/evaluate.h"
#include "train/metrics/temperature_fit.h"
#include "train/model/network.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

class CalibratedWeights {
 public:
  /// Opens the file of -o, on the rank that leads: throws as Outputs, and usage for options that do
  /// not go with --calibrate and for weights that do not say which network they are.
  CalibratedWeights(Outputs& outputs, const EvaluateArguments& arguments, RankGroup& ranks);

  /// Lets `options` observe what the fit needs, with --calibrate; the object stays where it is.
  void observe(EvaluateOptions& options);
  /// Collective, after evaluate(): the fit, with --calibrate. Throws as LogitRows::fit().
  std::optional<TemperatureFit> fit(RankGroup& ranks);
  /// Writes the weights with the temperature. `contents`: hashes of the examples.
  void write(int64_t examples, std::span<const uint64_t> contents);

 private:
  std::vector<std::string> names_of_data() const;

  Outputs& outputs_;
  const EvaluateArguments& arguments_;
  std::unique_ptr<OutputFile> file_;
  LogitRows rows_;
  std::optional<TemperatureFit> fit_;
};

}  // namespace whisker
