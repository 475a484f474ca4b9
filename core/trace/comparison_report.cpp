// A comparison of recordings for people, and as JSON.
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/local_rule.h"
#include "core/trace/recording_comparison.h"

#include <algorithm>
#include <optional>
#include <string>

namespace whisker {

std::string RecordingComparison::text(double tolerance, size_t width) const {
  std::string text;
  const auto line = [&](const std::string& said) { text += wrapped_lines(said, width); };
  line("A  " + a);
  line("B  " + b);
  text += "\n";
  const auto shown = [](const RecordedDifference& one) {
    return fmt::format("{}{}{}{}", one.gradient ? "gradient of " : "", printable(one.name),
                       one.layer.empty() ? "" : ", layer ", printable(one.layer));
  };
  for (const bool gradient : {false, true}) {
    const auto total = std::ranges::count(tensors, gradient, &RecordedDifference::gradient);
    const auto equal = std::ranges::count_if(tensors, [&](const RecordedDifference& one) {
      return one.gradient == gradient && one.absolute == 0;
    });
    text += fmt::format("{} {} compared, {} equal", gradient ? "backward " : "forward  ",
                        counted(total, "tensor"), equal);
    const RecordedDifference* const first = first_beyond(0, gradient);
    const RecordedDifference* const beyond = first_beyond(tolerance, gradient);
    if (first) text += fmt::format("\n  first difference      {}", shown(*first));
    if (first && beyond) {
      text += fmt::format("\n  first beyond {:<7g}  {}", tolerance, shown(*beyond));
    }
    text += "\n";
  }
  constexpr size_t most_rows = 40;
  TextTable table({"differs", "layer", ">largest", ">relative", ">units", "where", ">A", ">B"});
  size_t listed = 0;
  for (const RecordedDifference& one : tensors) {
    if (one.absolute == 0 || ++listed > most_rows) continue;
    table.add({(one.gradient ? "gradient of " : "") + one.name, one.layer,
               fmt::format("{:.2g}", one.absolute), fmt::format("{:.2g}", one.relative),
               fmt::format("{:.3g}", one.units),
               one.element < 0 ? "statistics" : index_in(one.shape, one.element),
               fmt::format("{:.6g}", one.a), fmt::format("{:.6g}", one.b)});
  }
  if (listed > 0) text += "\n" + table.str("", width);
  if (listed > most_rows) text += fmt::format("... {} more, all in --json\n", listed - most_rows);
  text += "\n";
  if (by_statistics > 0) {
    line(fmt::format("{} of more than {} elements: minimum, maximum, mean and deviation compared",
                     counted(by_statistics, "tensor"), most_recorded_values));
  }
  if (reordered > 0) {
    line(fmt::format("{} of B read as PyTorch's (N,C,H,W){}", counted(reordered, "tensor"),
                     ambiguous == 0 ? ""
                                    : fmt::format("; {} would fit as (N,H,W,C), too: permute them "
                                                  "where that is meant",
                                                  ambiguous)));
  }
  for (size_t i = 0; i < unmatched.size() && i < 3; ++i) line("not compared: " + unmatched[i]);
  if (unmatched.size() > 3) line(fmt::format("... {} more, all in --json", unmatched.size() - 3));
  if (relus_alike > 0) {
    line(
        fmt::format("relu: {} of {} elements decide otherwise in B, next to 0 and within rounding; "
                    "B goes on as A decides, so that they do not count (--tolerance)",
                    grouped(relus_alike), grouped(relus)));
  }
  const auto decided =
      std::ranges::find_if(tensors, [](const RecordedDifference& one) { return one.zeros > 0; });
  if (!agrees(tolerance) && decided != tensors.end()) {
    line(
        fmt::format("{} has zeros that the other side has not: a relu or a maximum that decides "
                    "otherwise changes gradients by more than rounding",
                    shown(*decided)));
  }
  if (tensors.empty()) {
    line("A and B have nothing to compare: no name, layer and shape is in both");
    return text;
  }
  double most = 0;
  for (const RecordedDifference& one : tensors) most = std::max(most, one.units);
  line(fmt::format(
      "A and B {}: {}differences of at most {:.3g} units of rounding of {} ({:.2g} of "
      "a tensor's largest value), tolerance {:g}",
      agrees(tolerance) ? "agree" : "differ",
      misshapen == 0
          ? std::string()
          : fmt::format("{} with another shape, of the others ", counted(misshapen, "tensor")),
      most, dtype, unit(), tolerance));
  return text;
}

std::string RecordingComparison::json(double tolerance) const {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("a", a).field("b", b);
  json.field("agree", agrees(tolerance)).field("tolerance", tolerance);
  json.field("dtype", name_of(dtype)).field("unit", unit());
  for (const bool gradient : {false, true}) {
    const RecordedDifference* const beyond = first_beyond(tolerance, gradient);
    json.field(gradient ? "first_gradient_beyond" : "first_value_beyond",
               beyond ? std::optional(beyond->name) : std::nullopt);
  }
  json.list("unmatched", unmatched);
  json.field("relus", relus).field("relus_decided_as_a", relus_alike);
  json.field("reordered", reordered).field("ambiguous", ambiguous);
  json.list("tensors", tensors, [&](const RecordedDifference& one) {
    json.begin_object().field("name", one.name).field("layer", one.layer);
    json.field("gradient", one.gradient).field("absolute", one.absolute);
    json.field("relative", one.relative).field("units", one.units);
    json.field("zeros_on_one_side", one.zeros);
    json.field("where", one.element < 0 ? "statistics" : index_in(one.shape, one.element));
    json.field("a", one.a).field("b", one.b).end_object();
  });
  return json.end_object().str();
}

}  // namespace whisker
