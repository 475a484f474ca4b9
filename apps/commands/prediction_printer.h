// Results of `whisker classify` on standard output: lines of text, a JSON object each, or one of
// all.
#pragma once

#include "apps/commands/classify_arguments.h"
#include "core/io/json.h"
#include "train/inference/image_classifier.h"

#include <string>
#include <vector>

namespace whisker {

/// Prints predictions as they come; on a rank other than 0, nothing.
class PredictionPrinter {
 public:
  /// `key` identifies an example: its path, text or position.
  PredictionPrinter(const ClassifyArguments& arguments, const Network& network, const char* key,
                    bool leads);
  void print(const Prediction& given);
  /// The exit code.
  int finish();
  /// What the vocabulary lacks of the texts that were printed; "" where it has all their tokens.
  std::string unknown_note() const;

 private:
  const ClassifyArguments& arguments_;
  const std::vector<std::string>& classes_;
  const char* key_;
  bool leads_;
  bool failed_ = false;
  const TextInput* text_;  // of a network on texts
  UnknownTokens tokens_ = {};
  JsonWriter all_;
};

}  // namespace whisker
