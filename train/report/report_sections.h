// The parts of a run's report. Each is "" where it does not apply to the run's task; where it does
// and its figures are missing, it says why.
#pragma once

#include "core/draw/chart.h"
#include "train/report/run_record.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// A <section> with a heading; `html` is its content.
std::string report_section(std::string_view id, std::string_view heading, std::string_view html);
/// The page of such sections, with links to them; `lead` is HTML below the title. `mark`: see
/// begin_page().
std::string report_page(std::string_view title, std::string_view lead, std::string_view sections,
                        std::string_view mark = "whisker report");
/// An <img> of a JPEG file's bytes.
std::string image_html(std::string_view jpeg, std::string_view alt);
/// What shown_curve() leaves out.
inline constexpr std::string_view curve_note =
    "A curve has the first value of each step, and at most 300 steps, evenly spread.";
/// The drawing of ReportExample::curve.
std::string curve_html(std::span<const std::pair<double, double>> curve);
/// One example as an <li>; `shown` may be null.
std::string example_card(const ValidationExamples& all, int64_t index, const ReportExample* shown);
/// The lines of a log that begin with "warning: ", five at most.
std::string warnings_html(const std::string& told);
/// "<p class=\"lead\">...</p>" of text.
std::string report_note(std::string_view text);
/// A file of weights with its folder: those of all runs are called best.safetensors.
std::string weights_name(const std::filesystem::path& file);
/// Curves of a section, beside others of them in charts_html().
std::string small_chart(const std::string& title, const std::string& x, const std::string& y,
                        std::vector<ChartSeries> series, std::vector<ChartMark> marks = {});
std::string charts_html(std::string_view charts);
/// "80.0 %"; "not measured" for NaN.
std::string percent_text(double fraction);
/// "images", without its s where `count` is 1.
std::string examples_text(int64_t count, std::string_view of);

/// The result in one sentence, and the commands that use the run.
std::string verdict_text(const RunRecord& run);
/// When the run began and was resumed, in sentences; else why that is not known.
std::string dates_text(const RunRecord& run);
/// What an evaluation measured, in one sentence.
std::string evaluation_text(const RunRecord& run);
std::string use_commands(const RunRecord& run);
/// The folder to name in commands.
std::string run_path(const RunRecord& run);

std::string verdict_section(const RunRecord& run);
std::string curves_section(const RunRecord& run);
std::string confusion_section(const RunRecord& run);
std::string per_class_section(const RunRecord& run);
std::string calibration_section(const RunRecord& run);
std::string roc_section(const RunRecord& run);
std::string mistakes_section(const RunRecord& run);
std::string samples_section(const RunRecord& run);
std::string forecast_section(const RunRecord& run);
std::string time_section(const RunRecord& run);
std::string data_section(const RunRecord& run);
std::string config_section(const RunRecord& run);
std::string environment_section(const RunRecord& run);
std::string commands_section(const RunRecord& run);

/// Dotted keys and values of a configuration but runs and name, in order; the model's layers are
/// one.
using Settings = std::vector<std::pair<std::string, std::string>>;
Settings settings_of(const YamlNode& config);
/// Those of this version's defaults.
const Settings& usual_settings();

/// A value of metrics.jsonl by epochs.
ChartSeries epoch_series(const RunRecord& run, std::string_view key, std::string name);
/// The metric that a curve is drawn of; "" for none but the loss.
std::string curve_metric(const RunRecord& run);

/// Whether the run's examples have classes.
bool classifies(const RunRecord& run);

/// Why there are no figures of the best weights; a clause without its end.
std::string no_best_text(const RunRecord& run);

/// Why there are no figures per example, for the sections that need them.
std::string no_examples_text(const RunRecord& run);

}  // namespace whisker
