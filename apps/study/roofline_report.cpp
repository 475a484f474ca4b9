// Rates are per pass; sums of a layer add times and floors.
#include "apps/study/roofline_report.h"

#include "core/draw/chart.h"
#include "core/io/checksum_mark.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"

#include <map>
#include <numeric>
#include <utility>

namespace whisker {
namespace {

constexpr double low_fraction = 0.2, least_of_time = 0.01;
constexpr size_t most_passes = 30, most_reasons = 10;
constexpr std::string_view roofline_mark = "<!-- by whisker study roofline";

std::string pass_name(const RooflinePass& pass) {
  if (pass.name.empty()) return pass.backward ? "backward" : "forward";
  return fmt::format("{}{}", pass.backward ? "backward of " : "", pass.name);
}

std::string pass_place(const RooflinePass& pass) {
  const std::string layer =
      pass.layer.empty() ? std::string() : fmt::format("layer {}", printable(pass.layer));
  if (pass.name.empty()) {
    return fmt::format("{}, {}", layer.empty() ? "outside of layers" : layer, pass_name(pass));
  }
  return fmt::format("{} {}{}{}", pass.number, pass_name(pass), layer.empty() ? "" : ", ", layer);
}

// Operations in "12.3 GFLOP".
double giga(double operations) {
  return operations / 1e9;
}

double per_second(double amount, double ms) {
  return ms > 0 ? amount / ms * 1e3 : 0;
}

std::vector<size_t> longest_first(const std::vector<RooflinePass>& passes) {
  std::vector<size_t> order(passes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return passes[a].ms > passes[b].ms; });
  return order;
}

}  // namespace

RooflineReport RooflineReport::of(const Recording& recording, std::string times) {
  RooflineReport report{.title = recording.title,
                        .times = std::move(times),
                        .ceilings = recording.ceilings.value(),
                        .passes = {}};
  const auto add = [&](size_t i, bool backward, PassWork work) {
    if (work.bytes == 0) return;
    const TapeEntry& entry = recording.entries[i];
    const double floor_ms = work.floor_ms(report.ceilings);
    report.passes.push_back({.number = entry.number,
                             .name = entry.name,
                             .layer = entry.layer,
                             .backward = backward,
                             .work = std::move(work),
                             .ms = backward ? entry.backward_ms : entry.forward_ms,
                             .floor_ms = floor_ms});
  };
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    if (recording.entries[i].kind != TapeKind::op) continue;
    add(i, false, operator_work(recording, i).forward);
  }
  for (const size_t i : recording.backward_order()) {
    if (recording.entries[i].kind == TapeKind::op) {
      add(i, true, operator_work(recording, i).backward);
    }
  }
  return report;
}

RooflineReport RooflineReport::by_layer() const {
  RooflineReport sums{.title = title, .times = times, .ceilings = ceilings, .passes = {}};
  std::map<std::pair<std::string, bool>, size_t> places;
  for (const RooflinePass& pass : passes) {
    const auto [place, is_new] =
        places.try_emplace({pass.layer, pass.backward}, sums.passes.size());
    if (is_new) sums.passes.push_back({.name = {}, .layer = pass.layer, .backward = pass.backward});
    RooflinePass& sum = sums.passes[place->second];
    sum.work.operations += pass.work.operations;
    sum.work.bytes += pass.work.bytes;
    sum.ms += pass.ms;
    sum.floor_ms += pass.floor_ms;
  }
  return sums;
}

std::string_view RooflineReport::bound(const RooflinePass& pass) const {
  if (pass.floor_ms < ceilings.overhead_ms) return "overhead";
  return pass.work.intensity() > ceilings.tflops * 1e3 / ceilings.gb_per_s ? "compute" : "memory";
}

double RooflineReport::milliseconds() const {
  double all = 0;
  for (const RooflinePass& pass : passes) all += pass.ms;
  return all;
}

std::vector<size_t> RooflineReport::far_below() const {
  std::vector<size_t> order = longest_first(passes);
  std::erase_if(order, [&, all = milliseconds()](size_t i) {
    return passes[i].fraction() >= low_fraction || passes[i].ms < least_of_time * all;
  });
  return order;
}

std::string RooflineReport::reason(const RooflinePass& pass) const {
  const std::string_view by = bound(pass);
  std::string text =
      fmt::format("{}: {:.3g} ms, {:.2g} % of its ceiling, bound by {}: ", pass_place(pass),
                  pass.ms, 100 * pass.fraction(), by);
  if (by == "overhead") {
    return text + fmt::format(
                      "its work takes {:.2g} us at the ceilings, an operator on one "
                      "element {:.2g} us",
                      1e3 * pass.floor_ms, 1e3 * ceilings.overhead_ms);
  }
  if (by == "memory") {
    return text + fmt::format(
                      "{:.3g} of {:.3g} GB/s; it passes over its operands more than once, "
                      "or reads them in an order that is slow",
                      per_second(pass.work.bytes / 1e9, pass.ms), ceilings.gb_per_s);
  }
  return text + fmt::format(
                    "{:.3g} of {:.3g} GFLOP/s; its extents are too small or narrow for the "
                    "rate of a large product, or its kernel is slow",
                    per_second(giga(pass.work.operations), pass.ms), 1e3 * ceilings.tflops);
}

std::string RooflineReport::text(size_t width) const {
  const auto lines = [&](const std::string& text) { return wrapped_lines(text, width, "  "); };
  std::string text = wrapped_lines(title, width) + "\n";
  text += lines(fmt::format(
      "ceilings: {:.4g} GFLOP/s in a large product, {:.4g} GB/s in a large copy; operators of more "
      "than {:.3g} operations per byte are bound by compute; {:.2g} us for one element",
      1e3 * ceilings.tflops, ceilings.gb_per_s, 1e3 * ceilings.tflops / ceilings.gb_per_s,
      1e3 * ceilings.overhead_ms));
  text += times + "\n\n";
  TextTable table(
      {">#", "operator", "layer", ">GFLOP", ">MiB", ">FLOP/B", ">ms", ">% of ceiling", "bound by"});
  const std::vector<size_t> order = longest_first(passes);
  for (size_t i = 0; i < order.size() && i < most_passes; ++i) {
    const RooflinePass& pass = passes[order[i]];
    table.add({pass.number == 0 ? "" : fmt::format("{}", pass.number), pass_name(pass), pass.layer,
               fmt::format("{:.3g}", giga(pass.work.operations)),
               fmt::format("{:.3g}", pass.work.bytes / (1 << 20)),
               fmt::format("{:.3g}", pass.work.intensity()), fmt::format("{:.3g}", pass.ms),
               pass.ms > 0 ? fmt::format("{:.1f}", 100 * pass.fraction()) : "",
               std::string(bound(pass))});
  }
  text += table.str("  ", width);
  if (order.size() > most_passes) {
    text += fmt::format("  ... {} more, all in --json\n", order.size() - most_passes);
  }
  double floor_ms = 0;
  for (const RooflinePass& pass : passes) floor_ms += pass.floor_ms;
  const double all = milliseconds();
  text += fmt::format("\n{}: {:.3g} ms, at the ceilings {:.3g} ms{}\n",
                      counted(static_cast<int64_t>(passes.size()), "pass"), all, floor_ms,
                      all > 0 ? fmt::format(" ({:.0f} %)", 100 * floor_ms / all) : std::string());
  if (std::ranges::any_of(passes, [](const RooflinePass& one) { return one.fraction() > 1; })) {
    text += lines(
        "above 100 %: operands were still in caches, or the algorithm needs fewer operations than "
        "are counted, as Winograd's");
  }
  const std::vector<size_t> low = far_below();
  if (low.empty()) return text;
  text += "\nbelow 20 % of their ceiling, and at least 1 % of the time:\n";
  for (size_t i = 0; i < low.size() && i < most_reasons; ++i) text += lines(reason(passes[low[i]]));
  if (low.size() > most_reasons) {
    text += fmt::format("... {} more, all in --json\n", low.size() - most_reasons);
  }
  return text;
}

std::string RooflineReport::json() const {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("network", title).field("times", times);
  json.field("ceiling_tflops", ceilings.tflops).field("ceiling_gb_per_s", ceilings.gb_per_s);
  json.field("overhead_ms", ceilings.overhead_ms);
  json.list("passes", passes, [&](const RooflinePass& pass) {
    json.begin_object().field("number", pass.number).field("operator", pass.name);
    json.field("layer", pass.layer).field("backward", pass.backward);
    json.field("operations", pass.work.operations).field("bytes", pass.work.bytes);
    json.field("operations_per_byte", pass.work.intensity()).field("ms", pass.ms);
    json.field("floor_ms", pass.floor_ms).field("fraction_of_ceiling", pass.fraction());
    json.field("bound_by", bound(pass)).end_object();
  });
  json.list("far_below", far_below(), [&](size_t i) {
    json.begin_object().field("pass", i).field("reason", reason(passes[i])).end_object();
  });
  return json.end_object().str();
}

std::string RooflineReport::svg() const {
  ChartSeries shown[] = {{"forward", SeriesKind::points}, {"backward", SeriesKind::points}};
  const double ridge = 1e3 * ceilings.tflops / ceilings.gb_per_s;
  double least = ridge / 10, most = ridge * 10;
  int64_t left_out = 0;
  for (const RooflinePass& pass : passes) {
    const double rate = per_second(giga(pass.work.operations), pass.ms);
    if (rate <= 0) {
      ++left_out;
      continue;
    }
    ChartSeries& series = shown[pass.backward ? 1 : 0];
    series.x.push_back(pass.work.intensity());
    series.y.push_back(rate);
    series.labels.push_back(pass_place(pass));
    least = std::min(least, pass.work.intensity());
    most = std::max(most, pass.work.intensity());
  }
  const double peak = 1e3 * ceilings.tflops;
  const ChartSeries roof{
      "ceiling", SeriesKind::line, {least, ridge, most}, {least * ceilings.gb_per_s, peak, peak}};
  const std::string beside =
      left_out == 0
          ? std::string()
          : fmt::format(" ({} without operations or time left out)", counted(left_out, "pass"));
  const Chart chart{.title = title,
                    .x = {.label = "operations per byte" + beside, .log = true},
                    .y = {.label = "GFLOP/s", .log = true},
                    .series = {roof, shown[0], shown[1]}};
  std::string text = fmt::format("{} -->\n{}", checksum_mark(roofline_mark), chart_svg(chart));
  set_checksum(text, roofline_mark);
  return text;
}

bool is_roofline_svg(std::string_view content) {
  return content.starts_with(roofline_mark) && checksum_matches(content, roofline_mark);
}

}  // namespace whisker
