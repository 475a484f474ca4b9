// The learning-rate range test (Smith 2017): the loss of steps whose rate rises exponentially.
#pragma once

#include "train/config/config.h"

#include <string>
#include <vector>

namespace whisker {

struct RangePoint {
  double rate = 0;
  double loss = 0;  ///< smoothed over the steps so far
};

struct RangeTest {
  std::vector<RangePoint> points;
  double suggestion = 0;  ///< the rate where the loss falls fastest; 0: it never falls
};

/// The rate at which the smoothed loss falls fastest over log(rate), before its least value.
double steepest_rate(const std::vector<RangePoint>& points);

/// Trains a network of `config` for up to 100 steps from a rate of 1e-7 to 10, until the loss is
/// four times its least. Nothing is written. Throws what Experiment throws.
RangeTest find_learning_rate(Config config);

/// The curve: an SVG image with the suggestion marked.
std::string range_test_svg(const RangeTest& test);

}  // namespace whisker
