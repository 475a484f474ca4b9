// Networks on sequences: classes of texts and rows, forecasts of series.
#pragma once

#include "data/sequences/rows_input.h"
#include "data/sequences/series.h"
#include "train/inference/image_classifier.h"
#include "train/model/network.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// Calls `report` once per text of `next`, in order, in batches as classify_images. Texts without a
/// token or with invalid UTF-8 are reported as unreadable and the rest continue.
void classify_texts(const Network& network, const NextInputs& next, int64_t batch_size,
                    const std::function<void(const Prediction&)>& report);

/// Calls `report` once per row, in order, named by its position in the file.
void classify_rows(const Network& network, const LabelledRows& rows, int64_t batch_size,
                   const std::function<void(const Prediction&)>& report);

/// The rows that follow the end of `series`: (horizon, targets), in the units of the file.
std::vector<double> forecast(const Network& network, const Series& series);

}  // namespace whisker
