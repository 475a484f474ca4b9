#include "data/sequences/vocabulary.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <utility>

namespace whisker {

Vocabulary::Vocabulary(const TokenCounts& counts, const VocabularyLimits& limits) {
  std::vector<std::pair<std::string, int64_t>> kept;
  for (const auto& [token, count] : counts) {
    if (count >= limits.min_count) kept.emplace_back(token, count);
  }
  // Stable: the map has them in the order of their bytes.
  std::ranges::stable_sort(kept, [](const auto& a, const auto& b) { return a.second > b.second; });
  const auto most = static_cast<size_t>(std::max<int64_t>(0, limits.max_size - 2));
  if (limits.max_size > 0 && kept.size() > most) kept.resize(most);
  for (auto& [token, count] : kept) {
    numbers_.emplace(token, size());
    tokens_.push_back(std::move(token));
  }
}

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string_view name) {
  for (std::string& token : tokens) {
    if (token.empty() || !numbers_.emplace(token, size()).second) {
      fail(ErrorKind::checkpoint, "{}: vocabulary: expected every token once, got {} again", name,
           excerpt(token));
    }
    tokens_.push_back(std::move(token));
  }
}

int64_t Vocabulary::number_of(std::string_view token) const {
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? unknown : found->second;
}

std::string_view Vocabulary::token(int64_t number) const {
  const bool own = number >= 2 && number < size();
  return own ? std::string_view(tokens_[static_cast<size_t>(number - 2)]) : std::string_view();
}

}  // namespace whisker
