// Predictions as the ranks of `whisker classify` send them to rank 0.
#pragma once

#include "apps/ranks/rank_rounds.h"
#include "train/inference/image_classifier.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// A prediction for rank 0; with a heat map as the JPEG that it becomes.
std::string packed(const Prediction& result, const std::string& heat_map = "");
Prediction unpacked(const std::string& text, std::string* heat_map = nullptr);

/// classify(next, report) over `inputs`, divided among the ranks; print(packed) on rank 0.
template <class Classify, class Pack, class Print>
void classify_divided(RankGroup& ranks, std::span<const std::string> inputs, int64_t batch_size,
                      const Classify& classify, const Pack& pack, const Print& print) {
  RankRounds rounds(ranks, inputs.size(), static_cast<size_t>(batch_size), print);
  const auto next = [&](size_t) {
    const RankRounds::Block block = rounds.next();
    const auto own = inputs.subspan(block.begin, block.size());
    return std::vector<std::string>(own.begin(), own.end());
  };
  classify(next, [&](const Prediction& result) { rounds.add(pack(result)); });
  rounds.finish();
}

}  // namespace whisker
