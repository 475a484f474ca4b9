// Small training runs for tests: folders of drawn stripes, a network that learns them in seconds,
// and hashes of everything that a run may change.
#pragma once

#include "core/io/hash.h"
#include "tests/support/temporary_folder.h"
#include "train/loop/trainer.h"

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker::test {

/// Writes `per_class` images of 20x16 to 26x22 pixels into DIR/c0, DIR/c1, ...; even numbers are
/// JPEG, odd ones PNG. Class c has stripes in a direction of its own; `first` numbers the first
/// one.
void write_stripes(const std::filesystem::path& dir, int classes, int per_class, int first = 0);

/// A folder with train/ (2 x 20) and val/ (2 x 5) of stripes.
class StripeFolder {
 public:
  explicit StripeFolder(int classes = 2, int train_per_class = 20, int val_per_class = 5);
  const TemporaryFolder& folder() const { return folder_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  /// 16x16 input, one convolution with batch_norm, batches of 8, 3 epochs; `overrides` as on the
  /// command line.
  Config config(const std::vector<std::string>& overrides = {}) const;
  /// The same as YAML, for the program.
  std::string yaml() const;

 private:
  TemporaryFolder folder_;
};

/// Overrides that bring everything random and everything with state into a run.
std::vector<std::string> lively_overrides();

/// Options whose graphs run the work again; counts the captures.
TrainStepOptions rerun(int* captures);

class Recorder final : public TrainObserver {
 public:
  void on_step(const StepEvent& event) override {
    steps.push_back(event);
    if (each_step) each_step(event);
  }
  void on_epoch(const EpochEvent& event) override { epochs.push_back(event); }
  void on_message(const std::string& text) override { messages.push_back(text); }
  void on_preparing(const Preparing& one) override { prepared.push_back(one); }

  std::vector<StepEvent> steps;
  std::vector<EpochEvent> epochs;
  std::vector<std::string> messages;
  std::vector<Preparing> prepared;
  std::function<void(const StepEvent&)> each_step;
};

/// One run, or one part of a resumed one, with everything it needs alive.
struct TestRun {
  /// A new run in runs/NAME; with `resume`, the run in that folder goes on.
  TestRun(Config config, const std::optional<std::filesystem::path>& resume = std::nullopt,
          TrainStepOptions step = {});
  TrainResult train();

  std::atomic<int> stop = 0;
  Recorder recorder;
  Experiment experiment;
  RunFolder folder;
  Trainer trainer;
};

/// Trains until optimizer step `k`, as a signal would stop it; returns the run's folder.
std::filesystem::path stopped_at(const Config& config, int64_t k);
/// The hash of what training to the end leaves, from the start or from where `resume` stopped.
std::string hash_of_run(const Config& config,
                        const std::optional<std::filesystem::path>& resume = std::nullopt);

const Parameter& parameter_named(const Experiment& experiment, std::string_view name);
/// Writes `value` into the middle of a parameter.
void poison(const Experiment& experiment, const std::string& name, float value);
/// Makes every output of a network infinite or NaN.
void overflow(const Network& network);
/// All parameters and statistics.
std::vector<double> weights_of(const Experiment& experiment);
/// Euclidean.
double distance(const std::vector<double>& a, const std::vector<double>& b);
/// Weights, buffers, moments and average.
std::string hash_of(const Experiment& experiment);
/// metrics.jsonl without what is measured with a clock.
std::string metrics_without_times(const std::filesystem::path& run);

}  // namespace whisker::test
