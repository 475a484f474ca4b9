#include "apps/commands/key_options.h"

#include "core/error.h"
#include "core/io/text.h"

#include <fmt/format.h>

namespace whisker {
namespace {

struct KeyOption {
  std::string_view name;  // "--batch-size"
  std::string_view alias;
  std::string_view key;   // "train.batch_size"
  std::string_view help;  // "" for an option that the command adds and reads itself
};

constexpr KeyOption key_options[] = {
    {"--epochs", "", "train.epochs", "Epochs"},
    {"--lr", "", "optimizer.lr", "Learning rate"},
    {"--batch-size", "--batch", "train.batch_size", "Examples in a batch, or auto"},
    {"--imgsz", "", "data.image_size", "Side of the images, in pixels"},
    {"--label-pattern", "", "data.label_pattern", "Labels from file names, as '{label}.*.jpg'"},
    {"--workers", "", "data.workers", "Decoding threads, or auto"},
    {"--patience", "", "train.early_stopping.patience",
     "Stop after so many epochs without improvement"},
    {"--name", "", "name", "Name of the run folder"},
    {"--device", "", "device", "auto, cpu, cuda, cuda:N, several with commas, or reference"},
    {"--data", "", "data.train", ""},
    {"--model", "", "model", ""},
    {"--weights", "", "init.from", ""},
    {"--pretrained", "", "init.from", ""},
    {"--init", "", "init.from", ""},
    {"--weights-key", "", "init.key", ""},
};

// "train.epochs=3" and "train={epochs: 3}" set train.epochs.
bool sets_key(std::string_view word, std::string_view key) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view set = word.substr(0, equals);
  return key == set || (key.starts_with(set) && key[set.size()] == '.');
}

}  // namespace

void add_key_options(CLI::App* command) {
  for (const KeyOption& option : key_options) {
    if (option.help.empty()) continue;
    const std::string help = fmt::format("{} ({})", option.help, option.key);
    command
        ->add_option(option.alias.empty() ? std::string(option.name)
                                          : fmt::format("{},{}", option.name, option.alias),
                     help)
        ->type_name("TEXT");
  }
}

std::vector<std::string> key_option_assignments(const CLI::App& command,
                                                std::span<const std::string> words) {
  std::vector<std::string> assignments;
  for (const KeyOption& option : key_options) {
    const CLI::Option* given = command.get_option(std::string(option.name));
    if (given->empty()) continue;
    for (const std::string& word : words) {
      if (!sets_key(word, option.key)) continue;
      fail(ErrorKind::usage, "{}: {} is {} and stands beside {}: leave one of the two out.",
           command.get_name(), option.name, option.key, excerpt(word));
    }
    if (option.help.empty()) continue;
    assignments.push_back(fmt::format("{}={}", option.key, given->results().back()));
  }
  return assignments;
}

}  // namespace whisker
