// What `whisker classify` was asked to do.
#pragma once

#include "apps/terminal/facts.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct ClassifyArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::vector<std::string> texts;
  int64_t top = 1;
  bool json = false;
  bool jsonl = false;
  bool null = false;
  std::string label_column;  // "": what the file tells
  std::string cam, embeddings;
  bool force = false;
  bool flip = false;
  double threshold = 0;  // below it an input's class is unknown
  std::string device = "auto";
  std::string gpus;
  int64_t batch_size = 16;
  FactOptions facts;
  PrecisionKind precision = PrecisionKind::f32;

  bool reads_stdin() const { return std::ranges::count(inputs, "-") > 0; }
};

}  // namespace whisker
