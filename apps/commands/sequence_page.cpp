#include "apps/commands/data_page.h"
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "train/metrics/metrics.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace whisker {
namespace {

using Example = SequenceDetails::Example;

std::string classes_of_sequences(const SequenceReport& report) {
  if (report.per_class.empty()) return "";
  std::vector<std::string> names;
  std::vector<int64_t> counts, val_counts;
  for (const auto& [name, count] : report.per_class) {
    names.push_back(name);
    counts.push_back(count);
    const auto val = report.details->val_per_class.find(name);
    val_counts.push_back(val == report.details->val_per_class.end() ? 0 : val->second);
  }
  return class_sizes_section(names, counts, val_counts, report.details->of);
}

std::string lengths_of_sequences(const SequenceReport& report) {
  std::vector<int64_t> lengths = report.details->lengths;
  if (report.per_class.empty() || lengths.empty()) return "";
  const std::string_view unit = report.reads_tokens ? "tokens" : "steps";
  std::ranges::sort(lengths);
  const auto at = [&](double part) {
    return lengths[static_cast<size_t>(part * static_cast<double>(lengths.size() - 1))];
  };
  std::string html;
  if (lengths.front() == lengths.back()) {
    html = fmt::format("<p>All training {} have {}.</p>\n", report.details->of,
                       counted(lengths.front(), report.reads_tokens ? "token" : "step"));
  } else {
    html = fmt::format(
        "<p>{} to {} {}, {:.1f} on average; half of the examples have at most {}, 95 % at most {}. "
        "{:.1f} % of a training epoch is padding.</p>\n",
        grouped(lengths.front()), grouped(lengths.back()), unit, report.mean_length,
        grouped(at(0.5)), grouped(at(0.95)), 100 * report.padding);
    constexpr int64_t bins = 12;
    const int64_t width = (lengths.back() - lengths.front()) / bins + 1;
    std::vector<int64_t> counts(bins);
    for (const int64_t length : lengths)
      ++counts[static_cast<size_t>((length - lengths.front()) / width)];
    HtmlTable table({std::string(unit), "training " + report.details->of});
    for (int64_t bin = 0; bin < bins && lengths.front() + bin * width <= lengths.back(); ++bin) {
      const int64_t from = lengths.front() + bin * width;
      table.row().text(width > 1 ? fmt::format("{} to {}", from, from + width - 1)
                                 : fmt::to_string(from));
      table.html(bar_of(counts[static_cast<size_t>(bin)], std::ranges::max(counts)));
    }
    html += table.str();
  }
  if (report.reads_tokens) {
    html += report_note(fmt::format(
        "{:.2f} % of the validation tokens are unknown to the vocabulary.", 100 * report.unknown));
  }
  return report_section("lengths", "Lengths", html);
}

std::string columns_of_sequences(const SequenceDetails& details) {
  if (details.columns.empty()) return "";
  constexpr size_t most_columns = 400;
  HtmlTable table({"column", "part", "values", "missing", "least", "mean", "most", "deviation"});
  const size_t shown = std::min(details.columns.size(), most_columns);
  for (size_t i = 0; i < shown; ++i) {
    const SequenceDetails::Column& one = details.columns[i];
    table.row().text(one.name).text(one.part);
    table.number(grouped(one.values)).number(grouped(one.missing));
    for (const double value : {one.least, one.mean, one.most, one.deviation}) {
      table.number(one.values > 0 ? fmt::format("{:.6g}", value) : "–");
    }
  }
  const std::string html = table.str() + left_out_note(details.columns.size(), shown, "columns");
  return report_section("columns", "Values",
                        html + report_note("In the units of the data. Rows that cannot be used are "
                                           "left out; they are listed below."));
}

std::string series_of_sequences(const SequenceDetails& details) {
  if (details.drawn.empty()) return "";
  std::string charts;
  std::vector<ChartMark> marks;
  if (details.val_begin > 0) {
    marks.push_back({.x = static_cast<double>(details.val_begin), .text = "validation"});
  }
  for (const ChartSeries& one : details.drawn) {
    charts += small_chart(one.name, "row", "value", {{.x = one.x, .y = one.y}}, marks);
  }
  return report_section(
      "series", "Over time",
      charts_html(charts) +
          report_note("Rows of data.train, at most 600, evenly spread. A gap is a row that "
                      "cannot be used."));
}

// Long texts are cut by shown_text(); a page holds so many bytes of them.
class TextCards {
 public:
  /// `all`: of which `examples` are the first.
  std::string list(const std::vector<Example>& examples, int64_t all) {
    std::string html = "<ul class=\"cards\">\n";
    for (const Example& one : examples) {
      html += fmt::format(
          "<li class=\"card\"><p class=\"text\">{}</p><p class=\"path\">{}{}{}</p></li>\n",
          markup(one.shown, KeptLines::all), one.in_val ? "validation: " : "",
          markup(without_folders(one.place)),
          one.of_class.empty() ? "" : fmt::format(" · {}", markup(one.of_class)));
    }
    html += "</ul>\n";
    if (all > std::ssize(examples)) {
      html += report_note(fmt::format("and {} more", grouped(all - std::ssize(examples))));
    }
    bytes_ += html.size();
    return html;
  }
  bool is_full() const { return bytes_ > 1'200'000; }

 private:
  size_t bytes_ = 0;
};

std::string curves_of_sequences(const std::map<std::string, std::vector<ChartSeries>>& curves) {
  constexpr size_t most_charts = 60;
  std::string charts;
  size_t shown = 0;
  for (const auto& [name, series] : curves) {
    if (shown == most_charts) break;
    ++shown;
    charts += small_chart(name, "step", "value", series);
  }
  return report_section(
      "examples", "Examples of each class",
      charts_html(charts) +
          report_note("Each curve is a row, named by its line. " + std::string(curve_note)) +
          left_out_note(curves.size(), shown, "classes"));
}

std::string examples_of_sequences(const SequenceReport& report, TextCards& cards) {
  const SequenceDetails& details = *report.details;
  if (!details.curves.empty()) return curves_of_sequences(details.curves);
  if (details.examples.empty()) return "";
  const size_t all = std::max<size_t>(1, report.per_class.size());
  std::string html;
  size_t shown = 0;
  for (const auto& [name, examples] : details.examples) {
    if (cards.is_full()) break;
    ++shown;
    html += (name.empty() ? "" : fmt::format("<h3>{}</h3>\n", markup(name))) +
            cards.list(examples, std::ssize(examples));
  }
  const bool classes = !report.per_class.empty();
  return report_section("examples", classes ? "Examples of each class" : "How it begins and ends",
                        html + left_out_note(all, shown, "classes"));
}

std::string copies_of_sequences(const SequenceReport& report, TextCards& cards) {
  const SequenceDetails& details = *report.details;
  constexpr size_t most_shown_copies = 60;
  const std::string across = counted(
      report.also_in_train, "validation example is the same as a training example to the network",
      "validation examples are the same as a training example to the network");
  if (report.per_class.empty())
    return report_section("copies", "Copies", report_note(across + "."));
  std::string html = report_note(fmt::format(
      "{} of the same content: {} across training and validation, {} across classes; {}.",
      counted(details.groups, "group"), details.copies_across_splits, details.copies_across_classes,
      across));
  size_t shown = 0;
  for (const SequenceDetails::Copies& group : details.copies) {
    if (shown == most_shown_copies || cards.is_full()) break;
    ++shown;
    html += cards.list(group.some, group.count);
  }
  return report_section("copies", "Copies",
                        html + left_out_note(static_cast<size_t>(details.groups), shown, "groups"));
}

std::string notes_of_sequences(const SequenceReport& report) {
  std::string said;
  for (const std::string& note : report.notes) said += without_middle(note, 800, 200) + "\n";
  return said;
}

std::string odd_rows_of_sequences(const SequenceReport& report) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string& line : report.bad) {
    const std::string bare = without_folders(line);  // "skipped: file:line: reason"
    const size_t begin = bare.starts_with("skipped: ") ? 9 : 0;
    const size_t end = bare.find(": ", begin);
    const bool placed = end != bare.npos;
    rows.emplace_back(placed ? bare.substr(begin, end - begin) : "skipped",
                      without_middle(placed ? bare.substr(end + 2) : bare, 800, 200));
  }
  return odd_section("Odd rows, and what was assumed", rows, "rows", notes_of_sequences(report));
}

}  // namespace

std::string sequence_check_page(const std::string& name, const SequenceReport& report) {
  TextCards cards;
  const std::string copies =
      copies_of_sequences(report, cards);  // these first, where room is short
  std::string body = classes_of_sequences(report) + lengths_of_sequences(report) +
                     series_of_sequences(*report.details) + columns_of_sequences(*report.details);
  body += examples_of_sequences(report, cards) + copies + odd_rows_of_sequences(report);
  return report_page(name.empty() ? "Data" : "Data " + name,
                     fmt::format("<p class=\"sentence\">{}; {} skipped.</p>\n",
                                 markup(without_folders(report.described)),
                                 counted(std::ssize(report.bad), "row is", "rows are")) +
                         report_note(report.details->validation) +
                         warnings_html(without_folders(notes_of_sequences(report))) +
                         dated_note("Checked"),
                     body, data_check_mark);
}

}  // namespace whisker
