// The options with which a user says what a weights file lacks, and in what its network computes.
#pragma once

#include "core/io/outputs.h"
#include "core/io/safetensors.h"
#include "train/config/config.h"
#include "train/model/network.h"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace whisker {

inline constexpr const char* weights_help =
    "Weights: safetensors, PyTorch's .pth, .pt, .bin, or a folder of Hugging Face";

struct Invocation;

/// Messages about what was recognised, on stderr unless --quiet.
void tell_notes(const std::vector<std::string>& notes, const Invocation& invocation);

/// `--classes`, `--input`, `--model` and `--weights-key`.
struct FactOptions {
  std::string model;    ///< preset of a file from elsewhere
  std::string classes;  ///< imagenet, or a file with a name per line
  std::vector<std::string> preprocess;
  std::string weights_key;

  void add_to(CLI::App* command);
  /// Throws usage or data for a file of names that is none.
  GivenFacts read() const;
  /// Whether `--input` gives `key`.
  bool gives(std::string_view key) const;
};

/// `--force` of a command with outputs.
void add_force(CLI::App* command, bool& force);
/// The outputs of `command`, which says on stderr what they replaced. From now on a signal that
/// ends the program removes those that are not finished.
Outputs make_outputs(const char* command, bool force, const Invocation& invocation);
/// Refuses an empty name of an output, which would write nothing without a word, and an unexpanded
/// one.
std::string check_output_name(const std::string& name);

/// `--precision`.
void add_precision(CLI::App* command, PrecisionKind& precision);
/// add_precision() where the weights say what none given means: see stored_precision().
void add_precision(CLI::App* command, std::optional<PrecisionKind>& precision);

/// What `evaluate` computes in where no precision is given: that of the validation in the file's
/// metadata (f32 without one) where `device` has it, else f32. `note` says so, in the second case
/// with the figures of that validation; "" for f32.
struct StoredPrecision {
  DType dtype = DType::f32;
  std::string note;
};
StoredPrecision stored_precision(const SafetensorsFile& weights, Device device);

}  // namespace whisker
