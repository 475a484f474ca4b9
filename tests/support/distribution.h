// What many draws of a quantity must show. A right sampler misses a bound for about one seed in
// 10^5; the seeds of tests are fixed.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

using Draws = std::vector<double>;

/// `hits` of `n` draws are as likely as `share`, within 4.4 deviations of a binomial share.
inline void expect_share(double hits, size_t n, double share) {
  const double deviation = std::sqrt(share * (1 - share) / static_cast<double>(n));
  EXPECT_NEAR(hits / static_cast<double>(n), share, 4.4 * deviation);
}

/// Within 4.4 deviations of a mean, with the draws' own variance.
inline void expect_mean(const Draws& draws, double mean) {
  const auto n = static_cast<double>(draws.size());
  double sum = 0, squares = 0;
  for (const double x : draws) sum += x;
  for (const double x : draws) squares += (x - sum / n) * (x - sum / n);
  EXPECT_NEAR(sum / n, mean, 4.4 * std::sqrt(squares) / n);
}

/// Uniform from `low` to `high`: nothing outside, both ends nearly reached, the mean, and
/// Kolmogorov and Smirnov's distance. `slack` is the error of a measured draw, as a share of the
/// range.
inline void expect_uniform(Draws draws, double low, double high, double slack) {
  std::ranges::sort(draws);
  const auto n = static_cast<double>(draws.size());
  double sum = 0, distance = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double u = (draws[i] - low) / (high - low);
    sum += u;
    distance =
        std::max({distance, u - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - u});
  }
  const auto share = [&](double x) { return (x - low) / (high - low); };
  EXPECT_GE(share(draws.front()), -slack);
  EXPECT_LE(share(draws.back()), 1 + slack);
  EXPECT_LE(share(draws.front()), 12 / n + slack);  // (1 - 12 / n)^n = 6e-6
  EXPECT_GE(share(draws.back()), 1 - 12 / n - slack);
  EXPECT_NEAR(sum / n, 0.5, 4.4 / std::sqrt(12 * n) + slack);
  EXPECT_LE(distance, 2.47 / std::sqrt(n) + slack);  // 2 exp(-2 * 2.47^2) = 1e-5
}

inline double correlation(const Draws& a, const Draws& b) {
  const size_t n = std::min(a.size(), b.size());
  double mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < n; ++i) {
    mean_a += a[i] / static_cast<double>(n);
    mean_b += b[i] / static_cast<double>(n);
  }
  for (size_t i = 0; i < n; ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);  // a constant has to do with nothing
}

/// Draws by name, as they are and as distances from their means: what depends on the size of
/// another draw, but not on its sign, shows there.
using NamedDraws = std::map<std::string, Draws>;

inline NamedDraws with_distances(const NamedDraws& named) {
  NamedDraws both = named;
  for (const auto& [name, draws] : named) {
    double mean = 0;
    for (const double x : draws) mean += x / static_cast<double>(draws.size());
    Draws& distances = both["distance of " + name];
    for (const double x : draws) distances.push_back(std::abs(x - mean));
  }
  return both;
}

/// No draw of `a` has to do with one of `b`, but a draw with itself where `same`: 5.5 deviations,
/// for there are thousands of pairs.
inline void expect_independent(const NamedDraws& a, const NamedDraws& b, bool same) {
  for (const auto& [name, draws] : with_distances(a)) {
    for (const auto& [other_name, others] : with_distances(b)) {
      if (same && (name.ends_with(other_name) || other_name.ends_with(name))) continue;
      const double bound = 5.5 / std::sqrt(static_cast<double>(draws.size()));
      EXPECT_LE(std::abs(correlation(draws, others)), bound) << name << " and " << other_name;
    }
  }
}

}  // namespace whisker::test
