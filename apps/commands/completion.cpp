// whisker completion bash|zsh|fish: one table of valid words by position, made from the CLI11 tree
// and the configuration's fields. A shell's script is the table as a `case`, with that shell's
// registration.
#include "apps/study/builtin_networks.h"
#include "apps/study/gradcheck_report.h"
#include "apps/study/grading/exercises.h"
#include "apps/terminal/command.h"
#include "apps/terminal/help.h"
#include "layers/builder/presets.h"
#include "train/config/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

// What may be written in any of `contexts`: "whisker study" (a command: subcommands and options),
// "whisker train|--resume" (an option's value; no words: a file), "whisker train+" (a configuration
// key, where the command takes them), "whisker summary^" (an argument that is no file, which files
// of such names go before), "schedule.kind=" (its values).
struct Row {
  std::vector<std::string> contexts;
  std::vector<std::string> words;
};

// "TEXT:{auto,always,never}" -> its three words, which CLI11 keeps nowhere else.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}', open);
  if (close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

// What may follow an option besides its choices; empty for a file.
std::vector<std::string> words_after(const CLI::Option& option) {
  if (option.get_name() == "--model") return preset_names();
  if (value_name(option) == "DEVICE") return {"auto", "cpu", "cuda", "reference"};
  return choices_of(option);
}

constexpr std::string_view preset_contexts[] = {"whisker summary^", "whisker bench^",
                                                "whisker models^"};
constexpr std::string_view study_contexts[] = {"whisker study trace^",   "whisker study graph^",
                                               "whisker study step^",    "whisker study record^",
                                               "whisker study why^",     "whisker study memory^",
                                               "whisker study compare^", "whisker study roofline^"};

void collect(const CLI::App& app, const std::string& path, const std::vector<std::string>& shared,
             std::vector<Row>& rows, Row& keys) {
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  Row command{.contexts = {path}, .words = {}};
  for (const CLI::App* sub : subcommands) command.words.push_back(sub->get_name());
  std::vector<std::string> options = shared;
  std::vector<Row> values;
  for (const CLI::Option* option : app.get_options()) {
    const std::string positional = option->get_name(true);
    if (positional == "CONFIG" || positional == "OVERRIDES") keys.contexts.push_back(path + "+");
    Row value{.contexts = {}, .words = words_after(*option)};
    for (const auto& [dashes, names] :
         {std::pair{"--", option->get_lnames()}, {"-", option->get_snames()}}) {
      for (const std::string& name : names) {
        value.contexts.push_back(path + "|" + dashes + name);
        options.push_back(dashes + name);
      }
    }
    if (option->get_items_expected_min() > 0 && !value.contexts.empty()) values.push_back(value);
  }
  std::ranges::sort(options);
  options.erase(std::ranges::unique(options).begin(), options.end());
  command.words.insert(command.words.end(), options.begin(), options.end());
  rows.push_back(command);
  rows.insert(rows.end(), values.begin(), values.end());
  for (const CLI::App* sub : subcommands) {
    // Options of the program may follow a subcommand.
    collect(*sub, path + " " + sub->get_name(), path == app.get_name() ? options : shared, rows,
            keys);
  }
}

std::vector<Row> completion_table(const CLI::App& app) {
  std::vector<Row> rows;
  Row keys;
  collect(app, app.get_name(), {}, rows, keys);
  for (const ConfigKey& key : config_keys()) {
    keys.words.push_back(key.path + "=");
    if (!key.values.empty()) rows.push_back({{key.path + "="}, key.values});
  }
  rows.push_back(keys);
  rows.push_back({{std::begin(preset_contexts), std::end(preset_contexts)}, preset_names()});
  std::vector<std::string> networks = builtin_network_names();
  for (std::string& preset : preset_names()) networks.push_back(std::move(preset));
  rows.push_back({{std::begin(study_contexts), std::end(study_contexts)}, networks});
  std::vector<std::string> checked = gradcheck_operators();
  checked.insert(checked.end(), networks.begin(), networks.end());
  rows.push_back({{"whisker study gradcheck^"}, checked});
  rows.push_back({{"whisker study grade^"}, exercise_names()});
  return rows;
}

// bash and zsh: sets `look` to the words of a context.
std::string sh_table(const std::vector<Row>& rows) {
  std::string text = "_whisker_look() {\n  case \"$1\" in\n";
  for (const Row& row : rows) {
    text += fmt::format("    \"{}\") look=\"{}\" ;;\n", fmt::join(row.contexts, "\"|\""),
                        fmt::join(row.words, " "));
  }
  return text + "    *) return 1 ;;\n  esac\n}\n";
}

constexpr std::string_view sh_offer = R"sh(
# Whether names of files begin with $1.
_whisker_files() {
  if [ -n "${ZSH_VERSION-}" ]; then setopt localoptions nonomatch; fi
  set -- "$1"*
  [ -e "$1" ]
}
# What may stand for $1 behind the words $2...: into offer, each to follow prefix.
_whisker_offer() {
  local current="$1" at=whisker before= word
  shift
  for word in "$@"; do
    before="$word"
    if _whisker_look "$at $word"; then at="$at $word"; fi
  done
  offer= prefix=
  if _whisker_look "$at|$before" || _whisker_look "whisker|$before"; then
    offer="$look"
    return
  fi
  case "$current" in
    *=*)
      prefix="${current%%=*}="
      if _whisker_look "$prefix"; then offer="$look"; fi ;;
    *)
      if _whisker_look "$at"; then offer="$look"; fi
      case "$current" in
        ""|-*) ;;
        *)
          if _whisker_look "$at+"; then offer="$offer $look"; fi
          if _whisker_look "$at^" && ! _whisker_files "$current"; then offer="$offer $look"; fi ;;
      esac ;;
  esac
}
)sh";

constexpr std::string_view bash_head =
    "# bash completion for whisker. Install: whisker completion bash > "
    "~/.local/share/bash-completion/completions/whisker\n";
// Readline completes file names itself where nothing is offered. It takes = for the end of a word,
// unless that was changed.
constexpr std::string_view bash_tail = R"sh(
_whisker() {
  local current="${COMP_WORDS[COMP_CWORD]}" words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  local offer prefix look count=${#words[@]} whole=
  if [[ $current == = && $count -ge 1 ]]; then
    current="${words[count-1]}="
    words=("${words[@]:0:count-1}")
  elif [[ $count -ge 2 && ${words[count-1]} == = ]]; then
    current="${words[count-2]}=$current"
    words=("${words[@]:0:count-2}")
  fi
  _whisker_offer "$current" "${words[@]}"
  [[ $COMP_WORDBREAKS == *=* ]] || whole="$prefix"
  COMPREPLY=($(compgen -P "$whole" -W "$offer" -- "${current#"$prefix"}"))
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _whisker whisker
)sh";

constexpr std::string_view zsh_head =
    "#compdef whisker\n# zsh completion for whisker. Install: whisker completion zsh > "
    "DIR/_whisker, where DIR is in fpath\n";
constexpr std::string_view zsh_tail = R"sh(
_whisker() {
  local offer prefix look
  local -a all keys others
  _whisker_offer "${words[CURRENT]}" "${(@)words[2,CURRENT-1]}"
  all=(${=offer})
  all=(${all/#/$prefix})
  keys=(${(M)all:#*=})
  others=(${all:#*=})
  compadd -S '' -a keys && return
  compadd -a others && return
  if [[ -n $prefix ]]; then compset -P '*='; fi
  _files
}
compdef _whisker whisker
if [[ $funcstack[1] == _whisker ]]; then _whisker "$@"; fi
)sh";

constexpr std::string_view fish_head =
    "# fish completion for whisker. Install: whisker completion fish > "
    "~/.config/fish/completions/whisker.fish\n";
std::string fish_table(const std::vector<Row>& rows) {
  std::string text = "function __whisker_look\n  switch \"$argv[1]\"\n";
  for (const Row& row : rows) {
    text += fmt::format("    case '{}'\n", fmt::join(row.contexts, "' '"));
    if (!row.words.empty())
      text += fmt::format("      printf '%s\\n' {}\n", fmt::join(row.words, " "));
  }
  return text + "    case '*'\n      return 1\n  end\nend\n";
}
constexpr std::string_view fish_tail = R"sh(
function __whisker_offer
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l at whisker
  set -l before
  for word in $words[2..-1]
    set before $word
    if __whisker_look "$at $word" >/dev/null
      set at "$at $word"
    end
  end
  if __whisker_look "$at|$before"; or __whisker_look "whisker|$before"
    return
  end
  if string match -q '*=*' -- $current
    set -l key (string split -m 1 = -- $current)[1]
    string replace -r '^' "$key=" (__whisker_look "$key=")
    return
  end
  __whisker_look $at
  if string match -q -r '^[^-]' -- $current
    __whisker_look "$at+"
    if not count $current* >/dev/null
      __whisker_look "$at^"
    end
  end
end
function __whisker_offers_nothing
  not string match -q -- (commandline -ct)'*' (__whisker_offer)
end
complete -c whisker -f -a '(__whisker_offer)'
complete -c whisker -n __whisker_offers_nothing -F
)sh";

// Completes subcommands, options and their choices, presets, operators, configuration keys and
// their values, and file names.
std::string completion_script(const CLI::App& app, std::string_view shell) {
  const std::vector<Row> rows = completion_table(app);
  if (shell == "fish") return fmt::format("{}{}{}", fish_head, fish_table(rows), fish_tail);
  const bool bash = shell == "bash";
  return fmt::format("{}{}{}{}", bash ? bash_head : zsh_head, sh_table(rows), sh_offer,
                     bash ? bash_tail : zsh_tail);
}

}  // namespace

void add_completion_command(CLI::App& app, Invocation& invocation) {
  CLI::App* completion = app.add_subcommand("completion", "Completion script for a shell");
  completion->require_subcommand(1);
  for (const char* shell : {"bash", "zsh", "fish"}) {
    completion->add_subcommand(shell, fmt::format("For {}", shell))
        ->callback([&app, &invocation, shell] {
          invocation.run = [&app, shell] {
            print_result(completion_script(app, shell));
            return 0;
          };
        });
  }
}

}  // namespace whisker
