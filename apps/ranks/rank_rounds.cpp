#include "apps/ranks/rank_rounds.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace whisker {
namespace {

// Where the messages end that hold `results`: of at most `most` bytes, or of one result.
std::vector<size_t> message_ends(std::span<const std::string> results, size_t most) {
  std::vector<size_t> ends;
  size_t bytes = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (ends.empty() || bytes + results[i].size() > most) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += results[i].size();
    ends.back() = i + 1;
  }
  return ends;
}

}  // namespace

RankRounds::RankRounds(RankGroup& ranks, size_t count, size_t block,
                       std::function<void(const std::string&)> report, size_t most_bytes)
    : ranks_(ranks),
      count_(count),
      block_(block),
      most_bytes_(most_bytes),
      report_(std::move(report)),
      all_(static_cast<size_t>(ranks.world())) {
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
  const std::vector<size_t> ends = message_ends(own_, most_bytes_ / all_.size());
  size_t messages = 0;
  for (const size_t count : ranks_.gather(ends.size())) messages = std::max(messages, count);
  for (size_t i = 0, begin = 0; i < messages; ++i) {
    const size_t end = i < ends.size() ? ends[i] : begin;
    std::vector<std::vector<std::string>> some =
        gather_texts(ranks_, std::span(own_).subspan(begin, end - begin));
    begin = end;
    for (size_t rank = 0; ranks_.leads() && rank < some.size(); ++rank) {
      std::ranges::move(some[rank], std::back_inserter(all_[rank]));
    }
  }
  own_.clear();
  for (std::vector<std::string>& results : all_) {
    for (const std::string& result : results) report_(result);
    results.clear();
  }
}

}  // namespace whisker
