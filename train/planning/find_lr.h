// The learning-rate range test (Smith 2017): the loss of steps whose rate rises exponentially.
#pragma once

#include "train/config/config.h"

#include <optional>
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

/// One test; of a configuration with unfreeze_at a second one, of the layers that are trained then.
struct RangeTests {
  RangeTest test;
  std::optional<RangeTest> unfrozen = {};
};

/// Trains a network of `config` for up to 100 steps from a rate of 1e-7 to 10, until the loss is
/// four times its least. For the second test a network like the first is trained for as many steps
/// at the first one's suggestion, and then unfrozen. Nothing is written. Throws what Experiment
/// throws.
RangeTests find_learning_rates(const Config& config);

/// The curves: an SVG image with the suggestions marked.
std::string range_test_svg(const RangeTests& tests);

/// Lines that say what they suggest, with the keys of the configuration.
std::string suggestion_text(const RangeTests& tests, int64_t unfreeze_at);

}  // namespace whisker
