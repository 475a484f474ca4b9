#include "train/report/evaluation_report.h"

#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "train/inference/shown_example.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <span>
#include <utility>

namespace whisker {
namespace {

// The mark of pages is that of versions that had --worst alone: --report replaces theirs, too.
constexpr std::string_view evaluation_mark = "whisker evaluate --worst";
constexpr size_t most_shown_pairs = 6;
constexpr size_t cards_per_pair = 6;

std::string_view kind_of(const Signature& signature) {
  constexpr std::string_view kinds[] = {"images", "text", "rows", "series"};
  return signature.task() == Task::language_model ? "language" : kinds[signature.input.index()];
}

RunRecord record_of(EvaluationRecord& evaluation) {
  const Signature& signature = evaluation.network.signature();
  const auto quoted = [](std::string_view text) { return JsonWriter().value(text).str(); };
  RunRecord run;
  const auto* series = std::get_if<SeriesInput>(&signature.input);
  run.config = YamlNode::parse(
      fmt::format("data: {{kind: {}, series: {{season: {}}}}}\ntrain: {{positive_class: {}}}\n",
                  kind_of(signature), series ? series->season : 0,
                  quoted(signature.positive_class)),
      "evaluate");
  run.best.emplace();
  run.best->examples = evaluation.metrics.count();
  run.best->of = signature.examples();
  run.best->values.emplace("loss", evaluation.metrics.loss());
  for (const Figure& one : evaluation.metrics.figures()) {
    run.best->values.emplace(one.name, one.value);
  }
  if (series) {
    JsonWriter written(NonFinite::null);
    written.begin_object();
    evaluation.metrics.write(written);
    written.end_object();
    add_naive_errors(JsonValue::parse(written.str(), {.name = "metrics"}), run.best->values);
  }
  if (const auto* counted = dynamic_cast<const ClassificationMetrics*>(&evaluation.metrics)) {
    const auto confusion = counted->confusion();
    run.classes = {.classes = signature.classes, .confusion = {confusion.begin(), confusion.end()}};
    if (counted->top_k() == 5) run.best->values.emplace("top_5", counted->top_k_accuracy());
  }
  if (evaluation.examples.size() > 0) run.validation = std::move(evaluation.examples);
  return run;
}

// The paths below the folder that all of them lie in. A page is for others to see: what is before
// says where its maker has them.
std::vector<std::string> without_common_folder(const std::vector<std::string>& paths) {
  std::string_view common = paths.empty() ? "" : std::string_view(paths[0]);
  for (const std::string& path : paths) {
    const auto differs = std::ranges::mismatch(common, path).in1;
    common = common.substr(0, static_cast<size_t>(differs - common.begin()));
  }
  const size_t size = common.rfind('/') + 1;  // 0 for npos
  std::vector<std::string> below;
  for (const std::string& path : paths) {
    const std::string rest = path.substr(size);
    // Where some are absolute and some not: the file with its class folder.
    const size_t file = path.rfind('/');
    const size_t folder = rest.starts_with('/') && file > 0 ? path.rfind('/', file - 1) : file;
    below.push_back(rest.starts_with('/') ? path.substr(folder + 1) : rest);
  }
  return below;
}

class ExampleCards {
 public:
  ExampleCards(const EvaluationRecord& evaluation, const ValidationExamples& all)
      : evaluation_(evaluation), all_(all) {}

  std::string list(std::span<const int64_t> indices) {
    std::string html = "<ul class=\"cards\">\n";
    for (const int64_t index : indices) html += example_card(all_, index, &shown(index));
    return html + "</ul>\n";
  }
  bool have_curves() const {
    return std::ranges::any_of(made_, [](const auto& one) { return !one.second.curve.empty(); });
  }

 private:
  const ReportExample& shown(int64_t index) {
    const auto [found, is_new] = made_.try_emplace(index);
    if (!is_new) return found->second;
    const auto at = static_cast<size_t>(index);
    if (!evaluation_.sequences.empty()) {
      const SequenceExample& example = evaluation_.sequences[at];
      const InputDescription& input = evaluation_.network.signature().input;
      found->second.curve = shown_curve(example, input);
      if (found->second.curve.empty()) found->second.text = shown_text(example, input);
      return found->second;
    }
    const std::string& path = evaluation_.paths[at];
    try {
      const ShownImage image = shown_image(evaluation_.network, path, all_.predicted(index));
      found->second.seen = shown_jpeg(image.seen);
      found->second.heat = shown_jpeg(image.heat);
    } catch (const Error& error) {
      found->second.text = without_folders(error.what());
    }
    return found->second;
  }

  const EvaluationRecord& evaluation_;
  const ValidationExamples& all_;
  std::map<int64_t, ReportExample> made_;
};

std::string pairs_section(const ValidationExamples& all, ExampleCards& cards) {
  std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> by_pair;
  for (const int64_t i : worst_mistakes(all, static_cast<size_t>(all.size()))) {
    by_pair[{all.labels[static_cast<size_t>(i)], all.predicted(i)}].push_back(i);
  }
  std::vector<std::pair<std::pair<int32_t, int32_t>, std::vector<int64_t>>> pairs(by_pair.begin(),
                                                                                  by_pair.end());
  std::ranges::stable_sort(
      pairs, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  pairs.resize(std::min(pairs.size(), most_shown_pairs));
  std::string html;
  for (const auto& [pair, indices] : pairs) {
    const auto name = [&](int32_t c) { return markup(all.classes[static_cast<size_t>(c)]); };
    html +=
        fmt::format("<h3>{} taken for {}: {}</h3>\n{}", name(pair.first), name(pair.second),
                    grouped(std::ssize(indices)),
                    cards.list(std::span(indices).first(std::min(indices.size(), cards_per_pair))));
  }
  return html.empty() ? "" : report_section("confused", "Most often confused", html);
}

std::string examples_sections(const EvaluationRecord& evaluation, const ValidationExamples& all) {
  std::vector<int64_t> worst(static_cast<size_t>(all.size()));
  std::iota(worst.begin(), worst.end(), 0);
  std::ranges::stable_sort(worst, [&](int64_t a, int64_t b) {
    return all.losses[static_cast<size_t>(a)] > all.losses[static_cast<size_t>(b)];
  });
  worst.resize(std::min(worst.size(), evaluation.worst));
  ExampleCards cards(evaluation, all);
  const std::string list = cards.list(worst);
  const std::string note = report_note(
      evaluation.sequences.empty()
          ? "Beside each image, as the network sees it, is where it sees the predicted class: the "
            "brighter, the more."
      : cards.have_curves() ? curve_note
                            : "");
  const std::string of = all.of.substr(0, all.of.size() - 1);
  return report_section("worst",
                        fmt::format("The {} of the largest loss", counted(std::ssize(worst), of)),
                        note + list) +
         pairs_section(all, cards);
}

std::string data_text(const EvaluationRecord& evaluation) {
  std::string data;
  for (const std::string& one : evaluation.data) {
    data += (data.empty() ? "" : ", ") + without_folders(one);
  }
  return data;
}

std::string measured_section(const EvaluationRecord& evaluation, const RunRecord& run) {
  HtmlTable table;
  table.row().name("weights").lines(weights_name(evaluation.weights));
  table.row().name("data").lines(data_text(evaluation));
  table.row().name(run.best->of).lines(grouped(run.best->examples));
  for (const auto& [name, value] : run.best->values)
    table.row().name(name).lines(figure_text(value));
  table.row().name("precision").lines(name_of(evaluation.network.arena().compute_dtype()));
  if (const auto& calibration = evaluation.network.signature().calibration) {
    table.row().name("temperature").lines(calibration->text());
  }
  return report_section("measured", "What was measured", table.str());
}

}  // namespace

std::string weights_name(const std::filesystem::path& file) {
  return (file.parent_path().filename() / file.filename()).string();
}

bool is_evaluation_report(std::string_view content) {
  return is_page(content, evaluation_mark);
}

std::string evaluation_report(EvaluationRecord evaluation) {
  RunRecord run = record_of(evaluation);
  if (run.validation) run.validation->paths = without_common_folder(evaluation.paths);
  std::string lead = fmt::format("<p class=\"sentence\">{}</p>\n", markup(evaluation_text(run)));
  if (evaluation.trained_on.value_or(0) > 0) {
    lead += fmt::format(
        "<p class=\"problem\">{} of these {} {} trained the weights: the figures do not apply to "
        "other {}.</p>\n",
        grouped(*evaluation.trained_on), grouped(run.best->examples), run.best->of, run.best->of);
  }
  lead += report_note(fmt::format("Weights {}; data {}; measured on {}.",
                                  weights_name(evaluation.weights), data_text(evaluation),
                                  evaluation.date));
  std::string body;
  for (const auto section :
       {forecast_section, confusion_section, per_class_section, calibration_section, roc_section}) {
    body += section(run);
  }
  if (run.validation && !run.validation->is_forecast()) {
    const ValidationExamples& all = *run.validation;
    int64_t wrong = 0;
    for (int64_t i = 0; i < all.size(); ++i) wrong += !all.is_correct(i);
    lead += report_note(fmt::format("{} of {} {} {} classified wrong.", grouped(wrong),
                                    grouped(all.size()), examples_text(all.size(), all.of),
                                    wrong == 1 ? "is" : "are"));
    body += examples_sections(evaluation, all);
  } else {
    body += report_section(
        "worst", "Examples",
        report_note(fmt::format("Left out: the largest loss and the confused classes are of "
                                "examples that have a class, and this network was trained on {}.",
                                evaluation.network.signature().examples())));
  }
  body += measured_section(evaluation, run);
  const std::string& path = evaluation.weights;
  return report_page("Evaluation of " + path.substr(path.rfind('/') + 1), lead, body,
                     evaluation_mark);
}

}  // namespace whisker
