// What the run was: data, configuration, environment, and the commands that go on from it.
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/io/shell_word.h"
#include "core/io/text.h"
#include "train/config/config.h"
#include "train/report/report_sections.h"

#include <algorithm>

namespace whisker {
namespace {

std::string table_of(const std::vector<std::pair<std::string, std::string>>& rows) {
  HtmlTable table;
  for (const auto& [name, value] : rows) table.row().name(name).lines(value);
  return table.str();
}

std::string pre(std::string_view text) {
  return fmt::format("<pre>{}</pre>\n", markup(text, KeptLines::all));
}

// Some lines are enough where thousands of files could not be read.
std::string first_lines(const std::string& text) {
  constexpr int64_t most = 200;
  size_t end = 0;
  for (int64_t lines = 0; lines < most && end < text.size(); ++lines) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  const auto left = std::count(text.begin() + static_cast<ptrdiff_t>(end), text.end(), '\n');
  return text.substr(0, end) +
         (left > 0 ? fmt::format("and {} more lines, in log.txt\n", left) : "");
}

void add_settings(const YamlNode& node, const std::string& path, Settings& settings) {
  if (!node.is_map() || path == "model") {
    if (path.empty() || path == "runs" || path == "name") return;
    std::string text = node.is_scalar() ? node.text() : node.emit();
    while (text.ends_with('\n')) text.pop_back();
    settings.emplace_back(path, without_folders(text.empty() ? "\"\"" : text));
    return;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    add_settings(node[i], path.empty() ? node.keys()[i] : path + "." + node.keys()[i], settings);
  }
}

// What of data.train validates.
std::string split_text(const RunRecord& run) {
  const std::string kind = run.setting("data.kind", "images");
  if (kind == "series" || kind == "language") {
    return kind == "series" ? ": the last rows" : ": the end of the text";
  }
  return fmt::format(" of each class, chosen by seed={}", run.setting("seed", "1"));
}

}  // namespace

// As it was named, unless that says whose machine it was.
std::string run_path(const RunRecord& run) {
  const std::string runs = run.setting("runs", "runs");
  return runs.starts_with('/') || runs.starts_with('~') || runs.empty() ? run.name
                                                                        : runs + "/" + run.name;
}

Settings settings_of(const YamlNode& config) {
  Settings settings;
  add_settings(config, "", settings);
  return settings;
}

const Settings& usual_settings() {
  static const Settings usual = settings_of(YamlNode::parse(print_config({}), "defaults"));
  return usual;
}

std::string data_section(const RunRecord& run) {
  std::string html;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const char* key : {"data.kind", "data.train", "data.val", "data.val_split", "data.test",
                          "data.csv", "data.label_pattern"}) {
    const std::string value = without_folders(run.setting(key));
    const bool split = std::string_view(key) == "data.val_split";
    if (value.empty() || (split && value == "0")) continue;
    rows.emplace_back(key, split ? value + split_text(run) : value);
  }
  if (!rows.empty()) html += table_of(rows);
  html += run.told.empty()
              ? report_note("What was read, assumed and skipped is not known: log.txt is missing.")
              : "<h3>What was read, assumed and skipped</h3>\n" + pre(first_lines(run.told));
  return report_section("data", "Data", html);
}

std::string config_section(const RunRecord& run) {
  constexpr std::string_view heading = "Configuration";
  if (run.config.is_null()) {
    return report_section("config", heading, report_note("Not known: config.yaml cannot be read."));
  }
  Settings changed = settings_of(run.config);
  std::erase_if(changed, [](const auto& one) {
    return std::ranges::find(usual_settings(), one) != usual_settings().end();
  });
  return report_section("config", heading,
                        "<h3>Other than the defaults of this version</h3>\n" + table_of(changed) +
                            "<details><summary>config.yaml, every key</summary>\n" +
                            pre(without_folders(run.config.emit())) + "</details>\n");
}

std::string environment_section(const RunRecord& run) {
  std::vector<std::pair<std::string, std::string>> rows = run.environment;
  if (run.best && !run.best->precision.empty()) rows.emplace_back("precision", run.best->precision);
  if (run.best && run.best->parameters > 0) {
    rows.emplace_back("parameters", grouped(static_cast<int64_t>(run.best->parameters)));
  }
  return report_section(
      "environment", "Environment",
      rows.empty() ? report_note("Not known: last/state.json has none, as before the first "
                                 "checkpoint and in runs of older versions.")
                   : table_of(rows));
}

std::string use_commands(const RunRecord& run) {
  const std::string path = run_path(run);
  const std::string kind = run.setting("data.kind", "images");
  const std::string weights = shell_word(path + "/best.safetensors");
  std::string ranks;
  for (const auto& [name, value] : run.environment) {
    if (name == "ranks" && value != "1") ranks = fmt::format(", number of ranks ({})", value);
  }
  std::string text =
      "# the same configuration on other data\n"
      "whisker train " +
      shell_word(path + "/config.yaml") + " data.train=PATH\n";
  // A run that was killed before its first checkpoint cannot be resumed, and has no weights.
  if (!run.best && run.environment.empty()) return text;
  text = fmt::format(
      "# train again, bit for bit where machine{1} and data are the same\n"
      "whisker train --repeat {0}\n{2}"
      "# train on: what is left, or more epochs\n"
      "whisker train --resume {0} train.epochs=N\n",
      shell_word(path), ranks, text);
  if (!run.best) return text;
  text += fmt::format("# measure it again\nwhisker evaluate {} DATA\n", weights);
  text += kind == "language"
              ? fmt::format("# write text\nwhisker generate {} --prompt \"TEXT\"\n", weights)
          : kind == "text" ? fmt::format("# use it\nwhisker classify {} --text \"TEXT\"\n", weights)
          : kind == "series" ? fmt::format("# forecast\nwhisker classify {} FILE.csv\n", weights)
                             : fmt::format("# use it\nwhisker classify {} FILE...\n", weights);
  return text;
}

std::string commands_section(const RunRecord& run) {
  return report_section("commands", "Train again, resume, use", pre(use_commands(run)));
}

}  // namespace whisker
