#include "apps/commands/metrics_report.h"

#include "apps/terminal/command.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "train/metrics/example_figures.h"

#include <cmath>
#include <optional>

namespace whisker {

void Unreadable::add(const std::string& path, const std::string& reason) {
  tell_unreadable(path, reason);
  files_.push_back({path, bare_reason(path, reason)});
}

void Unreadable::write(JsonWriter& json) const {
  json.list("unreadable", files_, [&](const SkippedFile& file) {
    json.begin_object().field("path", file.path).field("error", file.reason).end_object();
  });
}

namespace {

// How far these examples are those that the network's temperature was fitted to.
std::optional<double> fraction_fitted(const Network& network, const Measured& measured) {
  const auto& calibration = network.signature().calibration;
  if (!calibration) return std::nullopt;
  return calibration->fraction_fitted(measured.contents);
}

std::string calibration_text(const Network& network, const Measured& measured) {
  std::string text;
  if (const std::optional<double> fraction = fraction_fitted(network, measured)) {
    text = fmt::format("temperature {}", network.signature().calibration->text());
    if (*fraction > 0) {
      text += fmt::format(
          "; {:.0f} % of these {} are among them: their loss and calibration error are too good",
          std::ceil(100 * *fraction), network.signature().examples());
    }
    text += "\n";
  }
  if (const auto& fit = measured.fit) {
    text += fmt::format(
        "temperature {:.4f} fits these {}: loss {:.4f} without it, {:.4f} with it; expected "
        "calibration error {:.4f}, {:.4f}\n",
        fit->temperature, network.signature().examples(), fit->loss_before, fit->loss_after,
        fit->error_before, fit->error_after);
  }
  return text;
}

void write_calibration(const Network& network, const Measured& measured, JsonWriter& json) {
  if (const std::optional<double> fraction = fraction_fitted(network, measured)) {
    const CalibrationRecord& record = *network.signature().calibration;
    json.key("calibration").begin_object().field("temperature", record.temperature);
    json.field("examples", record.examples).list("data", record.data);
    json.field("fraction_fitted", *fraction).end_object();
  }
  if (const auto& fit = measured.fit) {
    json.key("calibrate").begin_object().field("temperature", fit->temperature);
    json.field("loss_before", fit->loss_before).field("loss_after", fit->loss_after);
    json.field("expected_calibration_error_before", fit->error_before);
    json.field("expected_calibration_error_after", fit->error_after).end_object();
  }
}

}  // namespace

int print_metrics(const Network& network, const Measured& measured, bool as_json) {
  const Metrics& metrics = measured.metrics;
  const Unreadable& unreadable = measured.unreadable;
  std::optional<ExampleFigures> figures;
  if (!measured.examples.labels.empty()) {  // of a classification
    figures = example_figures(measured.examples, network.signature().positive_class);
  }
  if (as_json) {
    JsonWriter json(NonFinite::null);
    json.begin_object().field("schema_version", 3);
    metrics.write(json);
    if (figures) figures->write(json);
    write_calibration(network, measured, json);
    json.field("precision", name_of(network.arena().compute_dtype()));
    if (measured.trained_on) json.field("trained_on", *measured.trained_on);
    unreadable.write(json);
    print_result(json.end_object().str() + "\n");
  } else {
    const std::string table = metrics.table(terminal_width(stdout));
    print_result(fmt::format(
        "{} {}  {}{}\n{}{}{}{}", network.signature().examples(), metrics.count(), metrics.line(),
        unreadable.any() ? fmt::format("  unreadable {}", unreadable.count()) : std::string(),
        figures ? figures->text() : "", calibration_text(network, measured),
        table.empty() ? "" : "\n", table));
  }
  return unreadable.any() ? static_cast<int>(ErrorKind::data) : 0;
}

}  // namespace whisker
