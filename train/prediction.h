// What a classifier says of one example.
#pragma once

#include "core/tensor.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct Prediction {
  std::string name;                  ///< path of a picture, the text itself, "file:line" of a row
  std::vector<float> probabilities;  ///< (classes); empty when the example could not be read
  std::string error;                 ///< why not; empty when it could
};

/// Gives each result without an error the next row of `scores` (examples, classes), which is on the
/// CPU, and reports them all in order.
void report_predictions(const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report);

}  // namespace whisker
