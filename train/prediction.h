// What a classifier says of one example.
#pragma once

#include <string>
#include <vector>

namespace whisker {

struct Prediction {
  std::string name;                  ///< path of a picture, the text itself, "file:line" of a row
  std::vector<float> probabilities;  ///< (classes); empty when the example could not be read
  std::string error;                 ///< why not; empty when it could
};

}  // namespace whisker
