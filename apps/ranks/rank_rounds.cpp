#include "apps/ranks/rank_rounds.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace whisker {

std::string pack_texts(std::span<const std::string> texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const uint64_t size = text.size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof size);
    packed += text;
  }
  return packed;
}

std::vector<std::string> unpack_texts(std::string_view packed) {
  std::vector<std::string> texts;
  while (packed.size() >= sizeof(uint64_t)) {
    uint64_t size = 0;
    std::memcpy(&size, packed.data(), sizeof size);
    packed.remove_prefix(sizeof size);
    texts.emplace_back(packed.substr(0, size));
    packed.remove_prefix(std::min<size_t>(size, packed.size()));
  }
  return texts;
}

std::vector<std::vector<std::string>> gather_texts(RankGroup& ranks,
                                                   std::span<const std::string> texts) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& packed : ranks.all_gather(pack_texts(texts))) {
    all.push_back(unpack_texts(packed));
  }
  return all;
}

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
