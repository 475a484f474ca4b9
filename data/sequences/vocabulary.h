// Maps tokens to the numbers that an embedding reads. Kept in the weights file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace whisker {

struct VocabularyLimits {
  int64_t min_count = 1;  ///< rarer tokens are unknown
  int64_t max_size = 0;   ///< entries, padding and unknown included; 0: no limit
};

/// How often each token occurs.
using TokenCounts = std::map<std::string, int64_t, std::less<>>;

class Vocabulary {
 public:
  static constexpr int64_t padding = 0;  ///< after the end of a shorter sequence
  static constexpr int64_t unknown = 1;  ///< any token without an entry of its own

  Vocabulary() = default;
  /// Numbers from 2 on, the most frequent token first, equally frequent ones in the order of their
  /// bytes.
  Vocabulary(const TokenCounts& counts, const VocabularyLimits& limits);
  /// Numbers `tokens` 2, 3, ... in their order. Throws checkpoint, naming `name`, for a duplicate
  /// or empty token.
  Vocabulary(std::vector<std::string> tokens, std::string_view name);

  /// Entries, padding and unknown included.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()) + 2; }
  int64_t number_of(std::string_view token) const;
  /// "" for padding and unknown.
  std::string_view token(int64_t number) const;
  /// All but padding and unknown, in order.
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace whisker
