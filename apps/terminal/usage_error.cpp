// Mistakes on the command line.
#include "apps/terminal/command.h"
#include "core/io/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(word, known);
  return nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest);
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
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
  const std::string word = unused.empty() ? "" : unused.front();
  if (word.starts_with("-")) {
    std::vector<std::string> options;
    for (const CLI::App* owner : {chosen, &app}) {  // options of the program may stand anywhere
      for (const CLI::Option* option : owner->get_options()) {
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      }
    }
    return fmt::format("{}unknown option {}.{} Put a name that begins with a dash after '--'.{}",
                       path, excerpt(word), did_you_mean(word.substr(0, word.find('=')), options),
                       help);
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
  if (!word.empty()) return fmt::format("{}unexpected argument {}.{}", path, excerpt(word), help);
  return fmt::format("{}{}.{}", path, printable(error.what()), help);
}

}  // namespace whisker
