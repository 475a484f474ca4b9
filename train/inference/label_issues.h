// Likely label errors among examples whose features are known (as "confident learning" does:
// Northcutt et al. 2021, Confident Learning: Estimating Uncertainty in Dataset Labels).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace whisker {

inline constexpr int64_t label_folds = 5;        ///< of the cross-validation
inline constexpr int64_t label_neighbours = 10;  ///< fewer where there are fewer examples
inline constexpr int label_odds = 2;             ///< of the most probable class to the label

struct LabelIssue {
  int64_t example = 0, label = 0;
  int64_t suggested = 0;  ///< the most probable class
  float label_probability = 0, suggested_probability = 0;
  int64_t neighbours_with_label = 0;
};

/// The examples whose label two judges doubt: to a multinomial logistic regression trained on the
/// other folds another class is at least label_odds times as probable, and fewer than half of the
/// nearest neighbours by cosine have the label. `features`: (n, d), n labels; each class that
/// occurs has label_folds examples or more. The least probable label first; the same for the same
/// `seed`, which decides the folds. Throws usage for features that are not finite.
std::vector<LabelIssue> find_label_issues(std::span<const float> features,
                                          std::span<const int64_t> labels, int64_t classes,
                                          uint64_t seed);

}  // namespace whisker
