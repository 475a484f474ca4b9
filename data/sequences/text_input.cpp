#include "data/sequences/text_input.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/sequences/table_header.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr std::string_view level_names[] = {"characters", "words"};
constexpr std::string_view rule_names[] = {"ascii", "unicode"};
constexpr std::string_view keep_names[] = {"first", "last"};

// The position of the member's text among `names`.
template <size_t N>
size_t choice(const JsonValue& json, const char* key, const std::string_view (&names)[N],
              const std::string& file) {
  const auto* found = std::ranges::find(names, json.at(key).as_string());
  if (found == std::end(names)) {
    fail(ErrorKind::checkpoint, "{}: sequence: {}: expected one of {}, got '{}'", file, key,
         fmt::join(names, ", "), json.at(key).as_string());
  }
  return static_cast<size_t>(found - std::begin(names));
}

}  // namespace

std::vector<int64_t> TextInput::encode(std::string_view text) const {
  const std::string prepared = prepare_text(text, lowercase, rules);
  std::vector<std::string_view> tokens = split_tokens(prepared, level, rules);
  const auto most = static_cast<size_t>(max_length);
  if (most > 0 && tokens.size() > most) {
    if (keep == KeptEnd::last) tokens.erase(tokens.begin(), tokens.end() - max_length);
    tokens.resize(most);
  }
  std::vector<int64_t> numbers;
  numbers.reserve(tokens.size());
  for (const std::string_view token : tokens) numbers.push_back(vocabulary.number_of(token));
  return numbers;
}

std::string TextInput::decode(std::span<const int64_t> numbers) const {
  std::string text;
  for (const int64_t number : numbers) {
    const std::string_view token = vocabulary.token(number);
    if (level == TokenLevel::words && !text.empty() && !token.empty()) text += ' ';
    text += token;
  }
  return text;
}

UnknownTokens unknown_tokens(const Vocabulary& vocabulary, const TokenCounts& counts) {
  UnknownTokens found;
  int64_t most = 0;
  for (const auto& [token, count] : counts) {
    found.all += count;
    if (vocabulary.number_of(token) != Vocabulary::unknown) continue;
    found.unknown += count;
    if (count > most) found.example = token;
    most = std::max(most, count);
  }
  return found;
}

std::string note_of(const UnknownTokens& found) {
  if (found.unknown == 0) return "";
  const double percent = 100 * static_cast<double>(found.unknown) / static_cast<double>(found.all);
  return fmt::format(
      "{} of the {} tokens, such as {}, are not in the vocabulary and are read as one unknown "
      "token",
      percent < 0.05 ? fmt::format("{}", found.unknown) : fmt::format("{:.1f} %", percent),
      found.all, excerpt(found.example));
}

std::string TextInput::unknown_note(const TokenCounts& counts) const {
  return note_of(unknown_tokens(vocabulary, counts));
}

int64_t TextInput::count(std::string_view text, TokenCounts& counts) const {
  const std::string prepared = prepare_text(text, lowercase, rules);
  const std::vector<std::string_view> tokens = split_tokens(prepared, level, rules);
  for (const std::string_view token : tokens) {
    const auto found = counts.find(token);
    if (found == counts.end()) {
      counts.emplace(token, 1);
    } else {
      ++found->second;
    }
  }
  return std::ssize(tokens);
}

std::string TextInput::cut_note(int64_t cut, int64_t all) const {
  if (cut == 0) return "";
  return fmt::format("{} of {} longer than data.text.max_length: the {} {} tokens of each are read",
                     cut, counted(all, "text is", "texts are"),
                     keep == KeptEnd::first ? "first" : "last", max_length);
}

std::string TextInput::json() const {
  JsonWriter json;
  json.begin_object().field("kind", "text").field("level", level_names[static_cast<size_t>(level)]);
  // Weights and runs that are older than the key have TokenRules::ascii.
  if (rules != TokenRules::ascii) json.field("rules", rule_names[static_cast<size_t>(rules)]);
  json.field("lowercase", lowercase).field("max_length", max_length);
  json.field("keep", keep_names[static_cast<size_t>(keep)]).list("vocabulary", vocabulary.tokens());
  json.field("label_column", label_column).field("text_column", text_column);
  write_header(json, header);
  return json.end_object().str();
}

TextInput TextInput::from_json(std::string_view text, const std::string& name) {
  const JsonValue json =
      JsonValue::parse(text, {.name = name + ": sequence", .kind = ErrorKind::checkpoint});
  TextInput input;
  input.level = static_cast<TokenLevel>(choice(json, "level", level_names, name));
  input.rules = json.find("rules")
                    ? static_cast<TokenRules>(choice(json, "rules", rule_names, name))
                    : TokenRules::ascii;
  input.lowercase = json.at("lowercase").as_bool();
  input.max_length = json.at("max_length").as_int(0, 1'000'000);
  input.keep = static_cast<KeptEnd>(choice(json, "keep", keep_names, name));
  input.label_column = json.at("label_column").as_string();
  input.text_column = json.at("text_column").as_string();
  input.header = read_header(json);
  input.vocabulary = Vocabulary(json.at("vocabulary").as_strings(), name);
  return input;
}

}  // namespace whisker
