#include "train/report/compare_runs.h"

#include "core/draw/chart.h"
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/io/counted.h"
#include "core/io/duration.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "train/metrics/metrics.h"
#include "train/report/common_examples.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_disagreements = 30;
const std::string unset = "(not set)";

class Comparison {
 public:
  explicit Comparison(const std::vector<fs::path>& folders) {
    std::map<std::string, int> names;
    for (const fs::path& folder : folders) {
      ComparedRun run;
      run.record = read_run_record(folder);
      const int number = ++names[run.record.name];
      run.title = number == 1 ? run.record.name : fmt::format("{} ({})", run.record.name, number);
      if (run.record.validation) {
        run.contents = recorded_contents(folder, *run.record.validation);
      }
      runs_.push_back(std::move(run));
    }
    common_ = match_examples(runs_);
  }

  std::string lead() const {
    if (common_.keys.empty()) return "";
    std::string said;
    for (const ComparedRun& run : runs_) {
      said += fmt::format("{}{} {}{}", said.empty() ? "" : "; ", run.title,
                          common_text(common_, run), common_.classify ? " right" : "");
    }
    return fmt::format("<p class=\"sentence\">On {} that all runs have: {}.</p>\n",
                       counted(std::ssize(common_.keys),
                               common_.classify ? "validation example" : "validation window"),
                       markup(said));
  }
  std::string html() const { return curves() + figures() + settings() + disagreements(); }
  std::string names() const {
    std::string text;
    for (const ComparedRun& run : runs_) text += (text.empty() ? "" : ", ") + run.title;
    return text;
  }

 private:
  std::string curves() const {
    std::string charts;
    const std::string metric = curve_metric(runs_[0].record);
    for (const std::string& name : {std::string("loss"), metric}) {
      Chart chart{.title = "validation " + name,
                  .x = {.label = "epoch", .low = 0},
                  .y = {.label = name},
                  .width = 400,
                  .height = 290};
      if (name.empty() || (name == metric && metric == "loss")) continue;
      for (const ComparedRun& run : runs_) {
        chart.series.push_back(epoch_series(run.record, "val_" + name, run.title));
      }
      charts += chart_svg(chart);
    }
    return report_section("curves", "Curves", charts_html(charts));
  }

  std::string figures() const {
    HtmlTable table({"run", "chosen by", "on its own validation set", "examples",
                     "on the common ones", "best epoch", "time", "began"});
    for (const ComparedRun& run : runs_) {
      const RunRecord& record = run.record;
      std::string own = "not validated";
      if (record.best) {
        // The accuracy, whatever chose the weights, so that runs can be compared.
        const double accuracy = record.figure("accuracy");
        const int64_t count = record.best->examples;
        const bool shown = std::isfinite(accuracy) && count > 0 && record.best->of != "tokens";
        own = shown ? accuracy_text(std::llround(accuracy * static_cast<double>(count)), count)
                    : fmt::format("{} {}", record.metric(),
                                  figure_text(record.figure(record.metric())));
      }
      table.row().text(run.title).text(record.metric()).text(own);
      table.number(record.best && record.best->examples >= 0 ? grouped(record.best->examples)
                                                             : "–");
      table.text(common_text(common_, run));
      table.number(record.best ? fmt::to_string(record.best->epoch) : "–");
      table.number(human_seconds(record.seconds));
      table.text(record.dates.began.empty() ? "not known" : record.dates.began);
    }
    return report_section("figures", "Figures", table.str() + report_note(common_note(common_)));
  }

  std::string settings() const {
    // Before all runs the defaults: what a key means that is younger than a run.
    std::map<std::string, std::vector<std::string>> values;
    for (size_t i = 0; i <= runs_.size(); ++i) {
      for (const auto& [key, text] :
           i == 0 ? usual_settings() : settings_of(runs_[i - 1].record.config)) {
        std::vector<std::string>& of_runs = values[key];
        of_runs.resize(i, unset);
        of_runs.push_back(text);
      }
    }
    std::vector<std::string> heads = {"setting"};
    for (const ComparedRun& run : runs_) heads.push_back(run.title);
    HtmlTable table(heads);
    bool any = false;
    for (auto& [key, of_runs] : values) {
      const bool rules = key.ends_with("rules");  // older runs keep theirs
      of_runs.resize(runs_.size() + 1, unset);
      for (std::string& value : of_runs) {
        if (value == unset && !rules) value = of_runs[0];
      }
      of_runs.erase(of_runs.begin());
      if (std::ranges::count(of_runs, of_runs[0]) == std::ssize(of_runs)) continue;
      any = true;
      table.row().name(key);
      for (const std::string& value : of_runs) table.lines(value);
    }
    return report_section("settings", "Settings that differ",
                          any ? table.str() : report_note("None: the configurations are alike."));
  }

  std::string disagreements() const {
    if (!common_.classify) return "";
    std::vector<std::string> keys;
    const auto said = [](const ComparedRun& run, const std::string& key) -> const std::string& {
      const ValidationExamples& all = *run.record.validation;
      return all.classes[static_cast<size_t>(all.predicted(run.examples.at(key)))];
    };
    for (const std::string& key : common_.keys) {
      std::set<std::string_view> classes;
      for (const ComparedRun& run : runs_) classes.insert(said(run, key));
      if (classes.size() > 1) keys.push_back(key);
    }
    const size_t all = keys.size();
    std::ranges::stable_partition(keys, [&](const auto& key) { return !shown_of(key).empty(); });
    keys.resize(std::min(all, most_disagreements));
    if (keys.empty()) {
      return report_section("disagreements", "Examples on which they disagree",
                            report_note(common_.keys.empty() ? "There are no common ones."
                                                             : "None of the common ones."));
    }
    std::vector<std::string> heads = {"example", "label"};
    for (const ComparedRun& run : runs_) heads.push_back(run.title);
    HtmlTable table(heads);
    for (const std::string& key : keys) {
      const ValidationExamples& first = *runs_[0].record.validation;
      const auto at = static_cast<size_t>(runs_[0].examples.at(key));
      const std::string& label = first.classes[static_cast<size_t>(first.labels[at])];
      const std::string path = at < first.paths.size() ? first.paths[at] : fmt::to_string(at);
      table.row().html(shown_of(key) + markup(path)).text(label);
      for (const ComparedRun& run : runs_) {
        const std::string& one = said(run, key);
        table.text(fmt::format("{} {}", one == label ? "✓" : "✗", one));
      }
    }
    std::string html = table.str();
    html += report_note(
        fmt::format("{} of {} common ones{}.", grouped(static_cast<int64_t>(all)),
                    grouped(std::ssize(common_.keys)),
                    all > keys.size()
                        ? fmt::format("; {} are listed, first those whose image or text a run kept",
                                      keys.size())
                        : ""));
    return report_section("disagreements", "Examples on which they disagree", html);
  }

  // The image or text, where it is among the worst mistakes that a run has kept; else "".
  std::string shown_of(const std::string& key) const {
    for (const ComparedRun& run : runs_) {
      const auto& kept = run.record.examples;
      if (!kept || kept->epoch != run.record.validation->epoch) continue;
      const auto found =
          std::ranges::find(kept->mistakes, run.examples.at(key), &ReportExample::index);
      if (found == kept->mistakes.end()) continue;
      if (!found->seen.empty()) return image_html(found->seen, "what a network saw") + "<br>";
      if (!found->curve.empty()) return curve_html(found->curve) + "<br>";
      return markup(without_middle(found->text, 160, 40)) + "<br>";
    }
    return "";
  }

  std::vector<ComparedRun> runs_;
  CommonExamples common_;
};

}  // namespace

std::string run_comparison(const std::vector<fs::path>& folders) {
  const Comparison comparison(folders);
  return report_page("Runs " + comparison.names(), comparison.lead(), comparison.html());
}

}  // namespace whisker
