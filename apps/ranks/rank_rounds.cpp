#include "apps/ranks/rank_rounds.h"

#include <algorithm>
#include <utility>

namespace whisker {

RankRounds::RankRounds(RankGroup& ranks, size_t count, size_t block,
                       std::function<void(const std::string&)> report)
    : ranks_(ranks), count_(count), block_(block), report_(std::move(report)) {
  const size_t together = block * static_cast<size_t>(ranks.world());
  rounds_ = (count + together - 1) / together;
}

RankRounds::Block RankRounds::next() {
  if (reported_ < begun_) report_round();
  if (begun_ == rounds_) return {};
  const size_t number =
      begun_++ * static_cast<size_t>(ranks_.world()) + static_cast<size_t>(ranks_.rank());
  return {.begin = std::min(number * block_, count_),
          .end = std::min((number + 1) * block_, count_)};
}

void RankRounds::finish() {
  while (reported_ < rounds_) report_round();
}

void RankRounds::report_round() {
  ++reported_;
  const std::vector<std::vector<std::string>> all = gather_texts(ranks_, own_);
  own_.clear();
  if (!ranks_.leads()) return;
  for (const std::vector<std::string>& results : all) {
    for (const std::string& result : results) report_(result);
  }
}

}  // namespace whisker
