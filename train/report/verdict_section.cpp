// What the run achieved, in one sentence, and what that sentence does not say.
#include "core/draw/markup.h"
#include "core/io/duration.h"
#include "core/io/text.h"
#include "train/metrics/metrics.h"
#include "train/metrics/score_curve.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <vector>

namespace whisker {
namespace {

// "on cuda:0 (NVIDIA H100)": the environment says it, of older runs only the configuration.
std::string device_text(const RunRecord& run) {
  std::string device, model, ranks;
  for (const auto& [name, value] : run.environment) {
    if (name == "device") device = value;
    if (name == "processor" || name == "name") model = value;
    if (name == "ranks" && value != "1") ranks = value + " ranks, each on ";
  }
  if (device.empty()) device = run.setting("device", "auto");
  if (device == "auto") device = "an unknown device";
  return ranks + device + (model.empty() ? "" : fmt::format(" ({})", model));
}

// Correct ones among `count`, which accuracy has lost by rounding only.
int64_t correct_of(double accuracy, int64_t count) {
  return static_cast<int64_t>(std::llround(accuracy * static_cast<double>(count)));
}

std::string with_interval(double accuracy, int64_t count) {
  if (count <= 0) return percent_text(accuracy);
  const Interval bounds = wilson_interval(correct_of(accuracy, count), count);
  return fmt::format("{} (95 % interval: {:.1f} to {:.1f} %)", percent_text(accuracy),
                     100 * bounds.low, 100 * bounds.high);
}

// Examples of each class.
std::vector<int64_t> counts_of(const ClassCounts& classes) {
  const size_t n = classes.classes.size();
  std::vector<int64_t> of_class(n);
  for (size_t i = 0; i < classes.confusion.size(); ++i) of_class[i / n] += classes.confusion[i];
  return of_class;
}

// " in 126 of the 1,000 classes".
std::string classes_text(const ClassCounts& classes) {
  const int64_t all = std::ssize(classes.classes);
  if (all == 0) return "";
  const std::vector<int64_t> counts = counts_of(classes);
  const int64_t none = std::ranges::count(counts, 0);
  return none > 0 ? fmt::format(" in {} of the {} classes", grouped(all - none), grouped(all))
                  : fmt::format(" in {} classes", grouped(all));
}

std::string naive_text(const RunRecord& run) {
  const std::string season = run.setting("data.series.season", "0");
  if (season == "0") return " (the last value)";
  return fmt::format(" (the last known value at the same place of a season of {} rows)", season);
}

// `kind`: "validation ", of a run.
std::string result_text(const RunRecord& run, std::string_view kind) {
  const int64_t count = run.best->examples;
  const std::string of =
      count < 0 ? fmt::format("{}{}", kind, run.best->of)
                : fmt::format("{} {}{}", grouped(count), kind, examples_text(count, run.best->of));
  if (const double accuracy = run.figure("accuracy");
      run.best->of != "tokens" && std::isfinite(accuracy)) {
    return fmt::format("{} of {}{} are classified right", with_interval(accuracy, count), of,
                       classes_text(run.classes)) +
           (std::isfinite(run.figure("top_5"))
                ? fmt::format(" ({} among the five most probable classes)",
                              percent_text(run.figure("top_5")))
                : "");
  }
  if (const double mae = run.figure("mae"); std::isfinite(mae)) {
    const double naive = run.figure("naive_mae");
    return fmt::format("the forecasts of {} are off by {} on average (mae; rmse {}){}", of,
                       figure_text(mae), figure_text(run.figure("rmse")),
                       std::isfinite(naive) ? fmt::format(", the naive forecast{} by {}",
                                                          naive_text(run), figure_text(naive))
                                            : "");
  }
  if (const double perplexity = run.figure("perplexity"); std::isfinite(perplexity)) {
    const double bits = run.figure("bits_per_character");
    return fmt::format(
        "{}perplexity is {} on {}",
        std::isfinite(bits) ? fmt::format("{} bits per character, ", figure_text(bits)) : "",
        figure_text(perplexity), of);
  }
  return fmt::format("the loss is {} on {}", figure_text(run.figure("loss")), of);
}

// "f1_class of 'spam'".
std::string chosen_by(const RunRecord& run) {
  const std::string of = run.setting("train.positive_class");
  return run.metric() + (run.metric() == "f1_class" ? fmt::format(" of '{}'", of) : "");
}

double epochs_done(const RunRecord& run) {
  double done = 0;
  for (const LoggedEpoch& one : run.epochs) done = std::max(done, one.epoch);
  return done;
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

std::string test_text(const RunRecord& run) {
  if (!run.test) return "";
  for (const std::string_view of : {"images", "texts", "rows", "windows", "tokens"}) {
    const auto count = run.test->find(of);
    if (count == run.test->end()) continue;
    const auto accuracy = run.test->find("accuracy"), mae = run.test->find("mae");
    const auto examples = static_cast<int64_t>(count->second);
    const std::string figure = of != "tokens" && accuracy != run.test->end()
                                   ? with_interval(accuracy->second, examples) + " right"
                               : mae != run.test->end()
                                   ? "mae " + figure_text(mae->second)
                                   : "loss " + figure_text(run.test->at("loss"));
    return fmt::format("On data.test, {} {} which no decision of the run has seen: {}.",
                       grouped(examples), examples_text(examples, of), figure);
  }
  return "";
}

// What an accuracy has to be better than.
std::string most_frequent_text(const RunRecord& run) {
  const ClassCounts& counts = run.classes;
  const std::vector<int64_t> of_class = counts_of(counts);
  const int64_t all = std::accumulate(of_class.begin(), of_class.end(), int64_t{0});
  if (of_class.size() < 2 || all == 0) return "";
  const auto most = std::ranges::max_element(of_class);
  return fmt::format("Always answering '{}' (no class is more frequent) would be right for {}.",
                     counts.classes[static_cast<size_t>(most - of_class.begin())],
                     percent_text(static_cast<double>(*most) / static_cast<double>(all)));
}

}  // namespace

std::string no_best_text(const RunRecord& run) {
  const bool validated = run.validation || std::ranges::any_of(run.epochs, [](const auto& one) {
                           return one.values.contains("val_loss");
                         });
  return validated ? "What the best weights achieved is not known, as best.safetensors is missing "
                     "or cannot be read"
                   : "Nothing has been validated yet";
}

std::string evaluation_text(const RunRecord& run) {
  return capitalised(result_text(run, "")) + ".";
}

std::string verdict_text(const RunRecord& run) {
  const double done = epochs_done(run);
  if (!run.best) {
    return fmt::format("{}: {:.0f} of {} epochs are done{} on {}.", no_best_text(run), done,
                       run.setting("train.epochs", "?"),
                       run.seconds > 0 ? " after " + human_seconds(run.seconds) : "",
                       device_text(run));
  }
  return fmt::format("{}, with the weights of epoch {}, the best of {:.0f} by {}; {} on {}.",
                     capitalised(result_text(run, "validation ")), run.best->epoch, std::ceil(done),
                     chosen_by(run),
                     run.seconds > 0 ? "training took " + human_seconds(run.seconds) : "trained",
                     device_text(run));
}

std::string dates_text(const RunRecord& run) {
  const RunDates& dates = run.dates;
  const size_t resumes = dates.resumed.size();
  std::string text = dates.began.empty()
                         ? "When the run began is not known: log.txt has no date of it, as in "
                           "older versions, or is missing."
                         : fmt::format("The run began on {}.", dates.began);
  if (dates.began.empty() && !dates.first_event.empty()) {
    text += fmt::format(" TensorBoard's first file in its folder is of {}.", dates.first_event);
  }
  if (resumes > 0) {
    text += fmt::format(" It was resumed {}on {}.",
                        resumes > 1 ? fmt::format("{} times, the last time ", resumes) : "",
                        dates.resumed.back());
  }
  return text;
}

std::string warnings_html(const std::string& told) {
  constexpr size_t most = 5;
  std::string html;
  size_t count = 0;
  std::istringstream lines(told);
  for (std::string line; count < most && std::getline(lines, line);) {
    const std::string text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (!text.starts_with("warning: ")) continue;
    html += fmt::format("<p class=\"problem\">{}</p>\n", markup(capitalised(text)));
    ++count;
  }
  return html;
}

std::string verdict_section(const RunRecord& run) {
  std::string html = fmt::format("<p class=\"sentence\">{}</p>\n", markup(verdict_text(run)));
  if (const std::string frequent = most_frequent_text(run); !frequent.empty()) {
    html += report_note(frequent);
  }
  if (const std::string test = test_text(run); !test.empty()) {
    html += fmt::format("<p>{}</p>\n", markup(test));
  } else if (run.best) {
    html += report_note(
        "The same examples chose the epoch, which flatters the figure a little; data.test measures "
        "it on others.");
  }
  html += warnings_html(run.told);
  const std::string state =
      run.ended.empty()
          ? fmt::format("{}: {:.0f} of {} epochs were done.",
                        run.told.empty() ? "Whether the run ended is not known without its log.txt"
                                         : "The run had not ended when this was written",
                        epochs_done(run), run.setting("train.epochs", "?"))
          : capitalised(run.ended) + (run.ended.ends_with('.') ? "" : ".");
  html += report_note(state + " " + dates_text(run));
  for (const std::string& problem : run.problems) {
    html += fmt::format("<p class=\"problem\">Not read: {}</p>\n", markup(problem));
  }
  return html;
}

}  // namespace whisker
