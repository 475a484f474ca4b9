// whisker config print|schema|keys: the resolved configuration, the JSON Schema for editors, and
// the reference of all keys.
#include "train/config/config.h"

#include "apps/terminal/command.h"

namespace whisker {

void add_config_command(CLI::App& app, Invocation& invocation) {
  CLI::App* config = app.add_subcommand("config", "Show a configuration, its schema or every key");
  config->require_subcommand(1);

  CLI::App* print = config->add_subcommand("print", "The resolved configuration as YAML");
  struct Arguments {
    std::string file;
    std::vector<std::string> overrides;
  };
  auto arguments = std::make_shared<Arguments>();
  print->add_option("CONFIG", arguments->file, "YAML file")->required();
  print->add_option("OVERRIDES", arguments->overrides, "section.key=value");
  set_action(print, invocation, [arguments] {
    print_result(print_config(read_config(arguments->file, arguments->overrides)));
    return 0;
  });

  CLI::App* schema = config->add_subcommand("schema", "JSON Schema of every key");
  auto checked = std::make_shared<Arguments>();
  schema->add_option("CONFIG", checked->file, "YAML file to check first");
  schema->add_option("OVERRIDES", checked->overrides, "section.key=value");
  set_action(schema, invocation, [checked] {
    if (!checked->file.empty()) read_config(checked->file, checked->overrides);
    print_result(config_schema() + "\n");
    return 0;
  });

  CLI::App* keys = config->add_subcommand("keys", "Every key: default, values, meaning");
  set_action(keys, invocation, [] {
    print_result(config_reference());
    return 0;
  });
}

}  // namespace whisker
