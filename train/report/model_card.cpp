// README.md of a run folder.
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/checksum_mark.h"
#include "core/io/file.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "train/report/report_sections.h"
#include "train/report/run_report.h"

#include <cmath>
#include <system_error>

namespace whisker {
namespace {

constexpr std::string_view card_mark = "whisker train";
constexpr std::string_view open_answer = "*To be filled in.*\n";
constexpr size_t largest_card = size_t{16} << 20;

std::string quoted_yaml(std::string_view text) {
  JsonWriter json;
  json.value(printable(text));
  return json.str();  // JSON texts are YAML's double-quoted ones
}

// Markdown shows it as it is.
std::string plain(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>#|!~&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string task_of(const std::string& kind) {
  return kind == "images"     ? "image-classification"
         : kind == "text"     ? "text-classification"
         : kind == "rows"     ? "tabular-classification"
         : kind == "language" ? "text-generation"
                              : "time-series-forecasting";
}

std::string front_matter(const RunRecord& run, const std::string& task) {
  std::string text = fmt::format(
      "---\n# by {}\nlibrary_name: whisker\npipeline_tag: {}\n# license: to be filled in\n",
      checksum_mark(card_mark), task);
  if (!run.best) return text + "---\n";
  text += fmt::format("model-index:\n- name: {}\n  results:\n  - task:\n      type: {}\n",
                      quoted_yaml(run.name), task);
  text +=
      "    dataset:\n      name: \"the run's validation set\"\n      type: validation\n    "
      "metrics:\n";
  for (const std::string_view metric :
       {"accuracy", "f1_macro", "mae", "rmse", "perplexity", "loss"}) {
    const double value = run.figure(metric);
    if (std::isfinite(value)) {
      text += fmt::format("    - type: {}\n      value: {:.6g}\n", metric, value);
    }
  }
  return text + "---\n";
}

std::string model_card(const RunRecord& run) {
  const std::string kind = run.setting("data.kind", "images");
  std::string text = front_matter(run, task_of(kind));
  text += fmt::format("\n# {}\n\n{}\n\n", plain(run.name), plain(verdict_text(run)));
  if (!run.dates.began.empty()) text += plain(dates_text(run)) + "\n\n";
  text += "The weights are `best.safetensors`; `report.html` shows the run.\n\n";
  text += "## Licence\n\n" + std::string(open_answer) + "\n## Intended use\n\n" +
          std::string(open_answer) + "\n## Limits and risks\n\n" + std::string(open_answer);
  text += "\n## Data\n\nWhere they are from, and what they may be used for: " +
          std::string(open_answer);
  if (!run.classes.empty()) {
    constexpr size_t most_named = 100;
    text += fmt::format("\n{} classes: ", run.classes.classes.size());
    for (size_t i = 0; i < std::min(run.classes.classes.size(), most_named); ++i) {
      text += (i > 0 ? ", " : "") + plain(run.classes.classes[i]);
    }
    text += run.classes.classes.size() > most_named ? ", ...\n" : ".\n";
  }
  text += "\n## Use\n\n```sh\n" + use_commands(run) + "```\n";
  set_checksum(text, card_mark);
  return text;
}

}  // namespace

void write_model_card(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "README.md";
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, error))) {
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, error))) return;
    if (!checksum_matches(read_file(file, largest_card, ErrorKind::disk), card_mark)) return;
  }
  write_file_atomically(file, model_card(read_run_record(run)));
}

}  // namespace whisker
