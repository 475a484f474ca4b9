// A text or row as it stands in the data, for reports about single examples.
#pragma once

#include <string>
#include <vector>

namespace whisker {

struct SequenceExample {
  std::string place;                ///< "file:line", or the file
  std::string text = {};            ///< of a text
  std::vector<double> values = {};  ///< of a row: (steps, features)
};

}  // namespace whisker
