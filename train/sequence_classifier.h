// Networks on sequences: classes of texts and rows, forecasts of series.
#pragma once

#include "data/rows_input.h"
#include "data/series.h"
#include "train/network.h"
#include "train/prediction.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// Calls `report` once per text, in order. Texts that hold no token or are no UTF-8 are reported as
/// unreadable, the rest go on.
void classify_texts(const Network& network, const std::vector<std::string>& texts,
                    int64_t batch_size, const std::function<void(const Prediction&)>& report);

/// Calls `report` once per row, in order, under its place in the file.
void classify_rows(const Network& network, const LabelledRows& rows, int64_t batch_size,
                   const std::function<void(const Prediction&)>& report);

/// The rows that follow the end of `series`: (horizon, targets), in the units of the file.
std::vector<double> forecast(const Network& network, const Series& series);

}  // namespace whisker
