// Single examples: the worst mistakes, and images as the network saw them.
#include "core/draw/markup.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "train/report/report_sections.h"

#include <algorithm>

namespace whisker {
namespace {

std::string data_uri(std::string_view jpeg) {
  return "data:image/jpeg;base64," +
         base64({reinterpret_cast<const uint8_t*>(jpeg.data()), jpeg.size()});
}

std::string words_line(const ReportExample& example, const std::string& predicted) {
  std::string words;
  for (const auto& [word, weight] : example.words) {
    words += fmt::format("{}<strong>{}</strong> {:+.2f}", words.empty() ? "" : ", ",
                         word == " " ? "(space)" : markup(word), weight);
  }
  return words.empty()
             ? ""
             : fmt::format("<p>for (+) and against (−) {}: {}</p>\n", markup(predicted), words);
}

// The examples of the validation's weights; else null.
const ReportExamples* examples_of(const RunRecord& run) {
  const bool same = run.examples && run.validation && run.examples->epoch == run.validation->epoch;
  return same ? &*run.examples : nullptr;
}

std::string why_without(const RunRecord& run) {
  const std::string kind = run.setting("data.kind", "images");
  if (run.examples && !run.examples->left_out.empty()) {
    return "Left out: " + without_folders(run.examples->left_out);
  }
  if (examples_of(run)) return "";
  const std::string what = kind == "images" ? "Images and heat maps" : "Texts and values";
  return run.examples ? what + " are of other weights, and left out; the end of the run makes them."
                      : what +
                            " are made at the end of a run, from its best weights: "
                            "examples.safetensors is not there.";
}

std::string samples_list(const std::vector<ReportExample>& samples, std::string_view alt) {
  std::string html = "<ul class=\"samples\">\n";
  for (const ReportExample& one : samples) {
    if (one.seen.empty()) continue;
    html += fmt::format("<li>{}<p class=\"path\">{}</p></li>\n", image_html(one.seen, alt),
                        markup(one.label));
  }
  return html + "</ul>\n";
}

}  // namespace

std::string image_html(std::string_view jpeg, std::string_view alt) {
  return fmt::format("<img src=\"{}\" alt=\"{}\">", data_uri(jpeg), markup(alt));
}

std::string curve_html(std::span<const std::pair<double, double>> curve) {
  return small_chart("values", "step", "value", {line_of("", curve)});
}

std::string example_card(const ValidationExamples& all, int64_t index, const ReportExample* shown) {
  const auto at = static_cast<size_t>(index);
  const int32_t predicted = all.predicted(index), label = all.labels[at];
  const std::string& name = all.classes[static_cast<size_t>(predicted)];
  const bool right = predicted == label;
  std::string html = fmt::format("<li class=\"card {}\">\n", right ? "right" : "wrong");
  if (shown && !shown->seen.empty()) {
    html += fmt::format(
        "<div class=\"pair\">{}{}</div>\n", image_html(shown->seen, "what the network saw"),
        shown->heat.empty() ? "" : image_html(shown->heat, "where it sees " + name));
  }
  if (shown && !shown->curve.empty()) {
    html += curve_html(shown->curve);
  }
  if (shown && !shown->text.empty()) {
    html += fmt::format("<p class=\"text\">{}</p>\n{}", markup(shown->text, KeptLines::all),
                        words_line(*shown, name));
  }
  const double of_label = static_cast<double>(all.probability(index, label));
  html += fmt::format(
      "<p class=\"verdict\"><span>{}</span> <strong>{}</strong> {:.1f} %</p>\n<p>label "
      "<strong>{}</strong>{} · loss {:.2f}</p>\n",
      right ? "right:" : "wrong:", markup(name),
      100 * static_cast<double>(all.probability(index, predicted)),
      markup(all.classes[static_cast<size_t>(label)]),
      of_label > 0 ? fmt::format(" {:.1f} %", 100 * of_label) : "", all.losses[at]);
  if (at < all.paths.size() && !all.paths[at].empty()) {
    html += fmt::format("<p class=\"path\">{}</p>\n", markup(all.paths[at]));
  }
  return html + "</li>\n";
}

std::string mistakes_section(const RunRecord& run) {
  constexpr std::string_view heading = "Worst mistakes";
  const std::string kind = run.setting("data.kind", "images");
  if (kind == "series" || kind == "language") return "";
  if (!run.validation)
    return report_section("mistakes", heading, report_note(no_examples_text(run)));
  const std::vector<int64_t> worst = worst_mistakes(*run.validation, shown_mistakes);
  if (worst.empty()) {
    return report_section("mistakes", heading, report_note("No example was classified wrong."));
  }
  const ReportExamples* shown = examples_of(run);
  std::string html = report_note(fmt::format(
      "The {} classified wrong with the largest loss: likely errors of the network, or of the "
      "labels.{}",
      counted(std::ssize(worst), "example"),
      shown && kind == "images"
          ? " Beside each image, as the network sees it, is where it sees the predicted class: the "
            "brighter, the more."
          : ""));
  if (shown && std::ranges::any_of(shown->mistakes, [](auto& one) { return !one.curve.empty(); })) {
    html += report_note(curve_note);
  }
  html += "<ul class=\"cards\">\n";
  for (const int64_t index : worst) {
    const ReportExample* example = nullptr;
    if (shown) {
      const auto found = std::ranges::find(shown->mistakes, index, &ReportExample::index);
      if (found != shown->mistakes.end()) example = &*found;
    }
    html += example_card(*run.validation, index, example);
  }
  html += "</ul>\n";
  if (const std::string why = why_without(run); !why.empty()) html += report_note(why);
  return report_section("mistakes", heading, html);
}

std::string samples_section(const RunRecord& run) {
  constexpr std::string_view heading = "Images as the network saw them";
  if (run.setting("data.kind", "images") != "images") return "";
  if (!run.examples) return report_section("samples", heading, report_note(why_without(run)));
  std::string html;
  if (!run.examples->training.empty()) {
    html += "<h3>Training, augmented, before mixup and cutmix</h3>\n" +
            samples_list(run.examples->training, "a training image");
  }
  if (!run.examples->validation.empty()) {
    html += "<h3>Validation</h3>\n" + samples_list(run.examples->validation, "a validation image");
  }
  if (!run.examples->left_out.empty()) {
    html += report_note("Left out: " + without_folders(run.examples->left_out));
  }
  return report_section("samples", heading, html);
}

}  // namespace whisker
