// whisker completion bash: walks the CLI11 tree and writes one case per command path.
#include "apps/completion.h"

#include "apps/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

struct CommandWords {
  std::string path;                 // "whisker config print"
  std::vector<std::string> words;   // subcommands, then options
  std::vector<std::string> valued;  // options followed by a value
};

void collect(const CLI::App& app, const std::string& path, const std::vector<std::string>& shared,
             std::vector<CommandWords>& commands) {
  CommandWords command{.path = path, .words = {}, .valued = {}};
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    command.words.push_back(sub->get_name());
  }
  std::vector<std::string> options = shared;
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> names;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : names) {
      if (std::find(options.begin(), options.end(), name) == options.end()) options.push_back(name);
      if (option->get_items_expected_min() > 0) command.valued.push_back(name);
    }
  }
  command.words.insert(command.words.end(), options.begin(), options.end());
  commands.push_back(command);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    // Options of the program may follow a subcommand.
    collect(*sub, path + " " + sub->get_name(), path == app.get_name() ? options : shared,
            commands);
  }
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<CommandWords> commands;
  collect(app, app.get_name(), {}, commands);
  std::string text = fmt::format(
      "# bash completion for {0}. Install: {0} completion bash > "
      "~/.local/share/bash-completion/completions/{0}\n"
      "_{0}() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" before=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  local path={0} words valued i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$path ${{COMP_WORDS[i]}}\" in\n",
      app.get_name());
  for (size_t i = 1; i < commands.size(); ++i) {
    text += fmt::format("      \"{0}\") path=\"{0}\" ;;\n", commands[i].path);
  }
  text += "    esac\n  done\n  case \"$path\" in\n";
  for (const CommandWords& command : commands) {
    text += fmt::format("    \"{}\") words=\"{}\" valued=\" {} \" ;;\n", command.path,
                        fmt::join(command.words, " "), fmt::join(command.valued, " "));
  }
  text += fmt::format(
      "  esac\n"
      "  COMPREPLY=()\n"
      "  if [[ $valued == *\" $before \"* ]]; then\n"
      "    compopt -o default 2>/dev/null\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "    if [[ ${{#COMPREPLY[@]}} -eq 0 && $word != -* ]]; then\n"
      "      compopt -o default 2>/dev/null\n"
      "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "    fi\n"
      "  fi\n"
      "}}\n"
      "complete -F _{0} {0}\n",
      app.get_name());
  return text;
}

void add_completion_command(CLI::App& app, Invocation& invocation) {
  CLI::App* completion = app.add_subcommand("completion", "Completion script for a shell");
  completion->require_subcommand(1);
  CLI::App* bash = completion->add_subcommand("bash", "For bash");
  bash->callback([&app, &invocation] {
    invocation.run = [&app] {
      print_result(bash_completion(app));
      return 0;
    };
  });
}

}  // namespace whisker
