// Rows of scores back to the examples that they are of.
#include "train/prediction.h"

namespace whisker {

void report_predictions(const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report) {
  int64_t row = 0;
  for (Prediction& result : results) {
    if (result.error.empty()) {
      const auto classes = static_cast<size_t>(scores.extent(1));
      const auto own =
          scores.data<const float>().subspan(static_cast<size_t>(row++) * classes, classes);
      result.probabilities.assign(own.begin(), own.end());
    }
    report(result);
  }
}

}  // namespace whisker
