#include "train/loop/histogram_log.h"

#include "core/io/json.h"
#include "core/io/text.h"

#include <fstream>
#include <memory>
#include <system_error>

namespace whisker {
namespace {

constexpr int histograms_version = 1;
constexpr int64_t most_elements = int64_t{1} << 53;

void write_summary(JsonWriter& json, std::string_view key,
                   const std::optional<TensorSummary>& summary) {
  json.key(key);
  if (!summary) {
    json.null();
    return;
  }
  const TensorStatistics& s = summary->statistics;
  json.begin_object().field("count", summary->count).field("mean", s.mean);
  json.field("deviation", s.deviation).field("minimum", s.minimum).field("maximum", s.maximum);
  json.field("norm", s.norm).field("zeros", s.zeros).field("not_finite", s.not_finite);
  json.list("histogram", s.histogram).end_object();
}

TensorSummary read_summary(const JsonValue& json, const std::string& place) {
  TensorSummary summary{.count = json.at("count").as_int(1, most_elements)};
  TensorStatistics& s = summary.statistics;
  s.minimum = json.at("minimum").as_double();
  s.maximum = json.at("maximum").as_double(s.minimum);
  s.mean = json.at("mean").as_double();
  s.deviation = json.at("deviation").as_double(0);
  s.norm = json.at("norm").as_double(0);
  s.not_finite = json.at("not_finite").as_int(0, summary.count);
  s.zeros = json.at("zeros").as_int(0, summary.count - s.not_finite);
  const JsonValue::Items& bins = json.at("histogram").items();
  int64_t left = summary.count - s.not_finite;
  for (size_t i = 0; i < bins.size() && i < s.histogram.size(); ++i) {
    left -= s.histogram[i] = bins[i].as_int(0, left);
  }
  if (bins.size() != s.histogram.size() || left != 0) {
    fail(ErrorKind::data,
         "{}: histogram: expected {} numbers whose sum is the {} finite elements, got {}", place,
         s.histogram.size(), summary.count - s.not_finite, bins.size());
  }
  return summary;
}

std::optional<TensorSummary> read_known(const JsonValue& json, const std::string& place) {
  return json.is_null() ? std::nullopt : std::optional(read_summary(json, place));
}

}  // namespace

std::string HistogramRow::json() const {
  JsonWriter json;
  json.begin_object().field("version", histograms_version).field("step", step);
  json.field("epoch", epoch).field("examples", examples);
  json.list("layers", layers, [&](const LayerHistograms& one) {
    json.begin_object().field("layer", one.layer).field("operator", one.op);
    json.field("units", one.units).field("dead_units", one.dead_units);
    write_summary(json, "activations", one.activations);
    write_summary(json, "gradients", one.gradients);
    json.end_object();
  });
  json.list("parameters", parameters, [&](const ParameterHistograms& one) {
    json.begin_object().field("name", one.name).field("update_ratio", one.update_ratio);
    write_summary(json, "weights", one.weights);
    write_summary(json, "gradients", one.gradients);
    json.end_object();
  });
  return json.end_object().str();
}

HistogramRow HistogramRow::read(std::string_view line, const std::string& place) {
  const JsonValue json =
      JsonValue::parse(line, {.name = place, .max_depth = 6, .kind = ErrorKind::data});
  if (const int64_t version = json.at("version").as_int(); version != histograms_version) {
    fail(ErrorKind::data, "{}: version {} is not supported by this program, which reads {}.", place,
         version, histograms_version);
  }
  HistogramRow row{.step = json.at("step").as_int(1, most_elements),
                   .epoch = json.at("epoch").as_int(1, most_elements),
                   .examples = json.at("examples").as_int(0, most_elements)};
  for (const JsonValue& one : json.at("layers").items()) {
    LayerHistograms layer{.layer = one.at("layer").as_string(),
                          .op = one.at("operator").as_string(),
                          .activations = read_summary(one.at("activations"), place),
                          .gradients = read_known(one.at("gradients"), place)};
    if (!one.at("units").is_null()) {
      layer.units = one.at("units").as_int(1, layer.activations.count);
      layer.dead_units = one.at("dead_units").as_int(0, *layer.units);
    }
    row.layers.push_back(std::move(layer));
  }
  for (const JsonValue& one : json.at("parameters").items()) {
    ParameterHistograms parameter{.name = one.at("name").as_string(),
                                  .weights = read_summary(one.at("weights"), place),
                                  .gradients = read_known(one.at("gradients"), place)};
    const JsonValue& ratio = one.at("update_ratio");
    if (!ratio.is_null()) parameter.update_ratio = ratio.as_double(0);
    row.parameters.push_back(std::move(parameter));
  }
  return row;
}

void read_histograms(const std::filesystem::path& file,
                     const std::function<void(HistogramRow)>& receive) {
  constexpr std::streamsize most_bytes = 64 << 20;
  const std::string name = printable(file.string());
  std::error_code unknown;
  std::ifstream in;
  if (std::filesystem::is_regular_file(file, unknown)) in.open(file, std::ios::binary);
  if (!in.is_open()) fail(ErrorKind::data, "{}: cannot be read", name);
  const auto line = std::make_unique_for_overwrite<char[]>(most_bytes);
  int64_t last = 0;
  for (int64_t number = 1;; ++number) {
    in.getline(line.get(), most_bytes);
    if (in.bad()) fail(ErrorKind::data, "{}: cannot be read", name);
    if (in.eof()) return;
    const std::string place = fmt::format("{}:{}", name, number);
    if (in.fail()) fail(ErrorKind::data, "{}: expected a line of at most 64 MiB", place);
    const auto length = static_cast<size_t>(in.gcount() - 1);  // the line's end was counted
    HistogramRow row = HistogramRow::read({line.get(), length}, place);
    if (row.step <= last) {
      fail(ErrorKind::data, "{}: expected a step above {}, got {}", place, last, row.step);
    }
    last = row.step;
    receive(std::move(row));
  }
}

}  // namespace whisker
