// The options with which a user says what a weights file lacks, and in what its network computes.
#pragma once

#include "train/config/config.h"
#include "train/model/network.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace whisker {

inline constexpr const char* weights_help =
    "Weights file: safetensors, or PyTorch's .pth, .pt, .bin";

struct Invocation;

/// Messages about what was recognised, on stderr unless --quiet.
void tell_notes(const std::vector<std::string>& notes, const Invocation& invocation);

/// `--classes`, `--input` and `--weights-key`.
struct FactOptions {
  std::string classes;  ///< imagenet, or a file with a name per line
  std::vector<std::string> preprocess;
  std::string weights_key;

  void add_to(CLI::App* command);
  /// Throws usage or data for a file of names that is none.
  GivenFacts read() const;
};

/// `--precision`.
void add_precision(CLI::App* command, PrecisionKind& precision);

}  // namespace whisker
