// A list as the inputs of a classifier, which asks for them batch by batch.
#pragma once

#include "train/inference/image_classifier.h"

#include <algorithm>

namespace whisker::test {

inline NextInputs inputs_of(std::vector<std::string> list) {
  return [list = std::move(list)](size_t most) mutable {
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(most, list.size()));
    std::vector<std::string> some(list.begin(), end);
    list.erase(list.begin(), end);
    return some;
  };
}

}  // namespace whisker::test
