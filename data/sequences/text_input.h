// How text becomes a network's input: part of the weights file, so that training, `evaluate`,
// `classify` and `generate` turn text into the same numbers.
#pragma once

#include "data/sequences/row_file.h"
#include "data/sequences/tokens.h"
#include "data/sequences/vocabulary.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Which tokens of a text that is too long are kept.
enum class KeptEnd : uint8_t { first, last };

/// What a vocabulary lacks of some tokens.
struct UnknownTokens {
  int64_t all = 0, unknown = 0;
  std::string example = {};  ///< the most frequent one
};
UnknownTokens unknown_tokens(const Vocabulary& vocabulary, const TokenCounts& counts);
/// "3.1 % of the 5200 tokens, such as 'x', are not in the vocabulary and are read as one unknown
/// token"; "" where all are.
std::string note_of(const UnknownTokens& found);

struct TextInput {
  TokenLevel level = TokenLevel::characters;
  TokenRules rules = TokenRules::unicode;
  bool lowercase = false;
  int64_t max_length = 0;  ///< tokens; 0: no limit
  KeptEnd keep = KeptEnd::first;
  Vocabulary vocabulary = {};
  /// Columns of labels and texts in a file of rows: numbers from 1, or names in its first row.
  std::string label_column = "1";
  std::string text_column = "2";
  Header header = Header::automatic;

  /// Token numbers of `text`, no more than max_length. Empty when it holds no token.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The text that token numbers stand for: words with spaces between, characters without. Padding
  /// and unknown tokens are dropped.
  std::string decode(std::span<const int64_t> numbers) const;
  /// Adds the tokens of `text` to `counts`, as encode() sees them, without the limit on length.
  /// Returns how many it has.
  int64_t count(std::string_view text, TokenCounts& counts) const;

  /// What the vocabulary lacks of `counts`: see note_of().
  std::string unknown_note(const TokenCounts& counts) const;

  /// That max_length cuts `cut` of `all` texts; "" where it cuts none.
  std::string cut_note(int64_t cut, int64_t all) const;

  std::string json() const;
  /// Throws checkpoint, naming `name`, for text that json() did not write.
  static TextInput from_json(std::string_view text, const std::string& name);
};

}  // namespace whisker
