#include "apps/study/nan_report.h"

#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace whisker {
namespace {

using Where = NonFiniteOrigin::Where;

constexpr size_t most_names = 5;
constexpr size_t most_before = 8;  // operators before the first NaN

template <class Values>
std::string first_of(const Values& values) {
  const std::vector shown(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                               values.size(), most_names)));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      values.size() > most_names ? fmt::format(" and {} more", values.size() - most_names) : "");
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

void add_tensor(TextTable& table, const std::string& what, const TapeOutput& output,
                const RecordedValues& values) {
  std::vector<std::string> cells = {what, fmt::format("{}", output.shape),
                                    fmt::format("{}", output.dtype)};
  if (values.known()) {
    const TensorStatistics s = values.summary();
    const bool any = s.not_finite < output.shape.count();  // of finite values
    for (const double one : {s.minimum, s.maximum, s.mean, s.deviation}) {
      cells.push_back(any ? number(one) : "");
    }
    cells.push_back(fmt::format("{}", s.not_finite));
  }
  table.add(std::move(cells));
}

void write_tensor(JsonWriter& json, std::string_view role, const std::string& name,
                  const TapeOutput& output, const RecordedValues& values) {
  json.begin_object().field("role", role).field("name", name).list("shape", output.shape);
  json.field("dtype", name_of(output.dtype));
  if (values.known()) {
    const TensorStatistics s = values.summary();
    json.field("minimum", s.minimum).field("maximum", s.maximum).field("mean", s.mean);
    json.field("deviation", s.deviation).field("norm", s.norm).field("zeros", s.zeros);
    json.field("not_finite", s.not_finite);
  }
  json.end_object();
}

// Calls fn(role, name, output, values) for what the operator read and made.
template <class Fn>
void each_tensor(const Recording& recording, const NonFiniteOrigin& origin, Fn fn) {
  const TapeEntry& entry = recording.entries[origin.entry];
  for (const TapeInput& input : entry.inputs) {
    const TapeOutput& output = recording.entries[input.entry].outputs[input.output];
    fn("operand", recording.label(input.entry), output, output.value);
  }
  for (const TapeOutput& output : entry.outputs) {
    fn("result", entry.kind == TapeKind::op ? "result" : entry.name, output, output.value);
  }
  if (origin.where != Where::backward) return;
  for (const TapeOutput& output : entry.outputs) {
    fn("gradient", "gradient that arrives", output, output.gradient);
  }
  const TapeOutput& target = recording.entries[origin.target.entry].outputs[origin.target.output];
  fn("given", fmt::format("gradient of {}", recording.label(origin.target.entry)), target,
     target.gradient);
}

// The operators that ran before the one that is to blame, and it.
std::string way_there(const Recording& recording, const NonFiniteOrigin& origin, size_t width) {
  const bool back = origin.where == Where::backward;
  std::vector<size_t> order;
  if (back) {
    order = recording.backward_order();
    const int last = recording.entries[origin.target.entry].backward_step;
    std::erase_if(order, [&](size_t i) { return recording.entries[i].backward_step > last; });
  } else {
    for (size_t i = 0; i <= origin.entry; ++i) {
      if (recording.entries[i].kind == TapeKind::op) order.push_back(i);
    }
  }
  TextTable table(
      {back ? "gradient of" : "operator", "layer", ">minimum", ">maximum", ">mean", ">NaN or Inf"});
  for (size_t i = order.size() - std::min(order.size(), most_before); i < order.size(); ++i) {
    const TapeEntry& entry = recording.entries[order[i]];
    const RecordedValues& values = back ? entry.outputs[0].gradient : entry.outputs[0].value;
    if (!values.known()) continue;
    const TensorStatistics s = values.summary();
    const bool any = s.not_finite < entry.shape().count();
    const auto text = [&](double value) { return any ? number(value) : std::string(); };
    table.add({recording.label(order[i]), entry.layer, text(s.minimum), text(s.maximum),
               text(s.mean), fmt::format("{}", s.not_finite)});
  }
  return table.str("  ", width);
}

}  // namespace

NanReport NanReport::of(const KeptStep& kept, const std::string& file, Device device,
                        DType precision) {
  NanReport report{.file = file, .step = kept.step(), .damaged_weights = kept.damaged_weights()};
  if (!kept.has_batch()) return report;
  report.damaged_rows = kept.damaged_rows();
  report.recording = kept.run(device, precision);
  report.origin = NonFiniteOrigin::of(*report.recording);
  if (report.origin) {
    report.place = kept.place_of(report.recording->entries[report.origin->entry].layer);
  }
  return report;
}

// What is said behind the heading.
std::vector<std::string> NanReport::sentences() const {
  std::vector<std::string> all;
  if (!recording) {
    all.push_back(fmt::format("No batch was kept: training saw it in {}, first in {}.", step.what,
                              step.found));
  } else if (!origin) {
    all.push_back(fmt::format(
        "All values of the step are finite when it runs again. In training the first was {}.",
        step.found));
    all.emplace_back(
        "An update of several batches (train.accumulate) may have failed in one before it, and "
        "sums over ranks are not computed again.");
  } else {
    all = origin->reasons(*recording);
  }
  if (!damaged_weights.empty()) {
    all.push_back(
        fmt::format("Before the step, NaN or Inf is in {} of the weights and statistics: "
                    "{}.",
                    damaged_weights.size(), first_of(damaged_weights)));
  }
  if (!damaged_rows.empty()) {
    all.push_back(fmt::format(
        "The data have NaN or Inf in {} of the batch, by their numbers in the training data from "
        "0: {}. Correct or remove them.",
        counted(static_cast<int64_t>(damaged_rows.size()), "row"), first_of(damaged_rows)));
  }
  return all;
}

std::string NanReport::text(size_t width) const {
  std::string text = wrapped_lines(
      fmt::format("{}: epoch {}, step {}, batch {} of the run{}: {} was NaN or Inf",
                  printable(file), step.epoch, step.step, step.batch,
                  step.rank > 0 ? fmt::format(", rank {}'s part", step.rank) : "", step.what),
      width);
  if (recording) {
    text += wrapped_lines(
        fmt::format(
            "the step ran again in {}{}", recording->title,
            step.loss_scale == 1 ? "" : fmt::format(", at the loss scale {:.4g}", step.loss_scale)),
        width);
  }
  if (origin) {
    const TapeEntry& entry = recording->entries[origin->entry];
    const std::string label = printable(recording->label(origin->entry));
    std::string found = fmt::format("the result of {}, forwards", label);
    if (origin->where == Where::operand) found = label;
    if (origin->where == Where::backward) {
      found = fmt::format("the gradient that {} gives to {}, backwards", label,
                          printable(recording->label(origin->target.entry)));
    }
    text += "\n" + wrapped_lines(fmt::format("first NaN or Inf: {}{}{}", found,
                                             entry.layer.empty() ? "" : ", layer ", entry.layer),
                                 width);
    if (!place.empty()) text += wrapped_lines("  " + printable(place), width);
    TextTable table(
        {"tensor", "shape", "dtype", ">minimum", ">maximum", ">mean", ">deviation", ">NaN or Inf"});
    each_tensor(*recording, *origin,
                [&](std::string_view, const std::string& name, const TapeOutput& output,
                    const RecordedValues& values) { add_tensor(table, name, output, values); });
    text += table.str("  ", width) + "\n";
  } else {
    text += "\n";
  }
  for (const std::string& one : sentences()) text += wrapped_lines(one, width);
  if (origin && origin->where != Where::operand) {
    text += fmt::format("\nthe way there\n{}", way_there(*recording, *origin, width));
  }
  return text;
}

std::string NanReport::json() const {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("file", file);
  json.field("epoch", step.epoch).field("step", step.step).field("batch", step.batch);
  json.field("rank", step.rank).field("failed", step.what).field("loss_scale", step.loss_scale);
  json.key("computed");
  if (recording) {
    json.value(recording->title);
  } else {
    json.null();
  }
  json.list("damaged_weights", damaged_weights).list("damaged_rows", damaged_rows);
  json.key("first");
  if (origin) {
    const TapeEntry& entry = recording->entries[origin->entry];
    json.begin_object();
    json.field("where", non_finite_where_names[static_cast<size_t>(origin->where)]);
    json.field("name", entry.name).field("number", entry.number).field("layer", entry.layer);
    json.field("place", place).key("tensors").begin_array();
    each_tensor(
        *recording, *origin,
        [&](std::string_view role, const std::string& name, const TapeOutput& output,
            const RecordedValues& values) { write_tensor(json, role, name, output, values); });
    json.end_array().end_object();
  } else {
    json.null();
  }
  json.list("reasons", sentences());
  return json.end_object().str();
}

}  // namespace whisker
