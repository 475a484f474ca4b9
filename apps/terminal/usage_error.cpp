// Mistakes on the command line.
#include "apps/terminal/command.h"
#include "core/io/text.h"
#include "train/config/config.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

// What other programs call a subcommand.
constexpr std::pair<std::string_view, std::string_view> other_subcommands[] = {
    {"predict", "classify"}, {"val", "evaluate"}, {"test", "evaluate"}, {"eval", "evaluate"}};

// What other programs call a key.
constexpr std::pair<std::string_view, std::string_view> other_keys[] = {
    {"--learning_rate", "optimizer.lr"}, {"--lr0", "optimizer.lr"},
    {"--wd", "optimizer.weight_decay"},  {"--opt", "optimizer.kind"},
    {"--sched", "schedule.kind"},        {"--amp", "precision"}};

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  for (const auto& [other, own] : other_subcommands) {
    const bool is_known = std::ranges::count(known, own) > 0;
    if (word == other && is_known) return fmt::format(" Did you mean '{}'?", own);
  }
  const std::string nearest = nearest_name(word, known);
  return nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest);
}

// Whether overrides of a configuration may stand among the command's words.
bool takes_keys(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    const std::string positional = option->get_name(true);
    return positional == "CONFIG" || positional == "OVERRIDES";
  });
}

// "3" of --epochs=3 and --epochs 3, else VALUE.
std::string value_of(const std::string& word, std::span<char* const> words) {
  const size_t equals = word.find('=');
  if (equals != std::string::npos) return word.substr(equals + 1);
  const auto found =
      std::ranges::find(words, word, [](const char* text) { return std::string(text); });
  const bool last = found == words.end() || found + 1 == words.end();
  const std::string_view next = last ? std::string_view() : std::string_view(*(found + 1));
  const bool other = next.empty() || next.starts_with("--") || next.find('=') != next.npos;
  return other ? "VALUE" : std::string(next);
}

// "train.epochs=3" for --epoch 3: the keys of the nearest name; several where they share it.
std::string nearest_keys(const std::string& word, const std::vector<std::string>& options,
                         std::span<char* const> words) {
  std::string name = word.substr(0, word.find('='));
  std::replace(name.begin() + 2, name.end(), '-', '_');
  std::vector<std::pair<std::string, std::string>> keys;  // as an option, and the key
  for (const auto& [other, key] : other_keys) keys.emplace_back(other, key);
  for (const ConfigKey& key : config_keys()) {
    keys.emplace_back("--" + key.path, key.path);
    const size_t dot = key.path.rfind('.');
    if (dot != std::string::npos) keys.emplace_back("--" + key.path.substr(dot + 1), key.path);
  }
  std::vector<std::string> names = options;
  for (std::string& option : names) std::replace(option.begin() + 2, option.end(), '-', '_');
  for (const auto& [as_option, key] : keys) names.push_back(as_option);
  const std::string nearest = nearest_name(name, names);
  const auto own = names.begin() + std::ssize(options);
  if (std::find(names.begin(), own, nearest) != own) return "";  // an option of the command
  const std::string value = value_of(word, words);
  std::vector<std::string> found;
  for (const auto& [as_option, key] : keys) {
    if (as_option == nearest) found.push_back(printable(fmt::format("{}={}", key, value)));
  }
  return fmt::format("{}", fmt::join(found, " or "));
}

// Whether `name` is a subcommand of `app`, or of one of those.
bool has_command(const CLI::App& app, std::string_view name) {
  return std::ranges::any_of(
      app.get_subcommands([](const CLI::App*) { return true; }),
      [&](const CLI::App* sub) { return sub->get_name() == name || has_command(*sub, name); });
}

}  // namespace

std::vector<std::string> words_to_parse(const CLI::App& app, std::span<char* const> words) {
  std::vector<std::string> result(words.begin() + 1, words.end());
  for (std::string& word : result) {
    if (word == "--") break;
    const size_t dot = word.starts_with("--") ? word.find('.') : std::string::npos;
    const bool is_split = dot != std::string::npos && has_command(app, word.substr(2, dot - 2));
    if (is_split) word.insert(2, ".");
  }
  std::ranges::reverse(result);
  return result;
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words) {
  const CLI::App* chosen = &app;
  std::string path;  // "data check: "
  std::string help = "\n  See '" + app.get_name();
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    path += (path.empty() ? "" : " ") + chosen->get_name();
    help += " " + chosen->get_name();
  }
  if (!path.empty()) path += ": ";
  help += " --help'.";
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!missing && !extra) return printable(error.what()) + help;

  std::vector<std::string> unused = app.remaining(true);
  std::erase(unused, "--");
  std::string word = unused.empty() ? "" : unused.front();
  if (word.starts_with("--.")) word.erase(2, 1);  // see words_to_parse()
  if (word.starts_with("-")) {
    std::vector<std::string> options;
    for (const CLI::App* owner : {chosen, &app}) {  // options of the program may stand anywhere
      for (const CLI::Option* option : owner->get_options()) {
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      }
    }
    const std::string said = fmt::format("{}unknown option {}.", path, excerpt(word));
    if (!word.starts_with("--") || !takes_keys(*chosen)) {
      return fmt::format("{}{} Put a name that begins with a dash after '--'.{}", said,
                         did_you_mean(word.substr(0, word.find('=')), options), help);
    }
    const std::string keys = nearest_keys(word, options, words);
    if (!keys.empty()) {
      return fmt::format("{} The configuration has a key for it: {}{}", said, keys, help);
    }
    return fmt::format(
        "{}{} Keys of the configuration are written as train.epochs=3; 'whisker "
        "config keys' lists them.{}",
        said, did_you_mean(word.substr(0, word.find('=')), options), help);
  }
  std::vector<std::string> subcommands;
  for (const CLI::App* sub : chosen->get_subcommands([](const CLI::App*) { return true; })) {
    subcommands.push_back(sub->get_name());
  }
  if (!subcommands.empty()) {
    return fmt::format("{}expected a subcommand ({}), got {}.{}{}", path,
                       fmt::join(subcommands, ", "), word.empty() ? "none" : excerpt(word),
                       did_you_mean(word, subcommands), help);
  }
  if (!word.empty()) {
    const CLI::Option* output = chosen->get_option_no_throw("--output");
    return fmt::format("{}unexpected argument {}.{}{}", path, excerpt(word),
                       output && output->empty() ? " The file to write is given as -o FILE." : "",
                       help);
  }
  return fmt::format("{}{}.{}", path, printable(error.what()), help);
}

}  // namespace whisker
