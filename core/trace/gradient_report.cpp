// GradientPaths as text and as JSON.
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/gradient_paths.h"
#include "core/trace/local_rule.h"
#include "core/trace/rule_table.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace whisker {
namespace {

// In a table "4 of 6", in a sentence "4 of 6 elements".
enum class Units : uint8_t { rows_only, all };

std::string loss_text(const LostGradient& loss, Units units) {
  if (loss.of == 0) return fmt::format("{}: {}", loss.cause, loss.reason);
  const double percent = 100 * static_cast<double>(loss.lost) / static_cast<double>(loss.of);
  return fmt::format("{}: {} in {} of {} ({:.0f} %)", loss.cause, loss.reason, loss.lost,
                     units == Units::all || loss.unit != "element" ? counted(loss.of, loss.unit)
                                                                   : fmt::to_string(loss.of),
                     percent);
}

// Whether it nearly dies on the way with the largest gradients, too.
bool ends_on_way(const GradientPaths& paths) {
  return !paths.paths.empty() && std::ranges::any_of(paths.ends, [&](const GradientEnd& end) {
    return std::ranges::count(paths.paths[0], end.entry, &GradientHop::entry) > 0;
  });
}

// The first lines: what the gradient is.
std::string summary_text(const GradientPaths& paths, const TapeEntry& own) {
  const auto& [elements, zeros] = std::pair(paths.elements, paths.zeros);
  const std::string name = fmt::format(
      "{}{} {} {}", own.name, paths.element ? index_in(own.shape(), *paths.element) : std::string(),
      paths.element ? fmt::format("of {}", own.shape()) : own.shape().str(), own.dtype());
  if (own.kind == TapeKind::constant) return fmt::format("{}: no gradient", name);
  const std::string all = counted(elements, "element");
  if (paths.not_finite > 0) {
    return paths.element ? fmt::format("{}: the gradient is NaN or Inf", name)
                         : fmt::format("{}: the gradient is NaN or Inf in {} of {}", name,
                                       paths.not_finite, all);
  }
  if (zeros == elements) {
    return fmt::format("{}: the gradient is 0{}", name,
                       paths.element || elements == 1 ? "" : fmt::format(" in all {}", all));
  }
  const char* const state = ends_on_way(paths) ? "nearly dies"
                            : paths.vanishes() ? "vanishes"
                                               : "lives";
  if (paths.element)
    return fmt::format("{}: the gradient {}, size {:.4g}", name, state, paths.norm);
  return fmt::format("{}: the gradient {}, norm {:.4g}, 0 in {} of {}", name, state, paths.norm,
                     zeros, all);
}

// Factors of a gradient that stay below 1 although nothing is lost.
std::string slopes_text(const TapeEntry& entry) {
  const std::string_view fused = fused_activation(entry);
  const std::string_view name = fused.empty() ? std::string_view(entry.name) : fused;
  const std::vector<double>& values = entry.outputs[0].value.all;
  if ((name != "sigmoid" && name != "tanh") || values.empty()) return "";
  double least = 1, most = 0;
  for (const double y : values) {
    const double slope = name == "tanh" ? 1 - y * y : y * (1 - y);
    least = std::min(least, slope);
    most = std::max(most, slope);
  }
  return fmt::format("slopes of {} from {:.2g} to {:.2g}", name, least, most);
}

std::string size_text(double norm) {
  if (std::isnan(norm)) return "none";
  return std::isinf(norm) ? "NaN, Inf" : fmt::format("{:.4g}", norm);
}

// A path's rows, of one that is not the first those in which it differs from the first, with a row
// on both sides.
std::string path_text(const GradientPaths& paths, size_t index, const Recording& recording,
                      size_t width) {
  const std::vector<GradientHop>&path = paths.paths[index], &first = paths.paths[0];
  size_t begin = 0, end = path.size();
  if (index > 0) {
    const auto same = [](const GradientHop& a, const GradientHop& b) { return a.entry == b.entry; };
    const auto parts = std::mismatch(path.begin(), path.end(), first.begin(), first.end(), same);
    begin = static_cast<size_t>(parts.first - path.begin()) - 1;
    const size_t most = std::min(path.size(), first.size()) - begin - 1;
    size_t behind = 0;
    while (behind < most &&
           same(path[path.size() - 1 - behind], first[first.size() - 1 - behind])) {
      ++behind;
    }
    end -= behind == 0 ? 0 : behind - 1;
  }
  const bool layers = std::any_of(path.begin(), path.end(), [&](const GradientHop& hop) {
    return !recording.entries[hop.entry].layer.empty();
  });
  std::vector<std::string> header = {">gradient", "operator"};
  if (layers) header.emplace_back("layer");
  header.emplace_back("lost there");
  TextTable table(header);
  for (size_t i = begin; i < end; ++i) {
    const GradientHop& hop = path[i];
    std::vector<std::string> cells = {size_text(hop.norm), recording.label(hop.entry)};
    if (layers) cells.push_back(recording.entries[hop.entry].layer);
    std::string lost;
    for (const LostGradient& loss : hop.losses) {
      lost += fmt::format("{}{}", lost.empty() ? "" : "; ", loss_text(loss, Units::rows_only));
    }
    if (lost.empty() && hop.norm > 0) lost = slopes_text(recording.entries[hop.entry]);
    cells.push_back(std::move(lost));
    table.add(std::move(cells));
  }
  const std::string all = paths.count < 1e15 ? grouped(static_cast<int64_t>(paths.count))
                                             : fmt::format("{:.3g}", paths.count);
  std::string part;
  if (begin > 0) part = fmt::format(" to {}", recording.label(path[begin].entry));
  if (end < path.size()) {
    part += fmt::format("{} from {} on", part.empty() ? "" : " and",
                        recording.label(path[end - 1].entry));
  }
  if (!part.empty()) part = fmt::format(", as path 1{}", part);
  return fmt::format("\npath {} of {} from the loss{}\n{}", index + 1, all, part,
                     table.str("  ", width));
}

std::string place_text(const Recording& recording, size_t entry) {
  const std::string& layer = recording.entries[entry].layer;
  return layer.empty() ? recording.label(entry)
                       : fmt::format("{} of {}", recording.label(entry), printable(layer));
}

// `way`: from behind the loss to the operator that the parameter reaches.
std::string vanishing_text(const Recording& recording, std::span<const GradientHop> way) {
  const auto passed_on = [&](size_t i) { return way[i + 1].norm / way[i].norm; };
  size_t least = 0;
  for (size_t i = 1; i + 1 < way.size(); ++i) {
    if (passed_on(i) < passed_on(least)) least = i;
  }
  if (passed_on(least) < vanished_gradient) {
    return fmt::format("  most of it at {}: {:.4g} arrives, {:.4g} goes on",
                       place_text(recording, way[least].entry), way[least].norm,
                       way[least + 1].norm);
  }
  return fmt::format(
      "  falls from operator to operator: {:.4g} arrives at {}, {:.4g} at {}; what each passes on "
      "multiplies",
      way.front().norm, place_text(recording, way.front().entry), way.back().norm,
      place_text(recording, way.back().entry));
}

void write_loss(JsonWriter& json, const LostGradient& loss) {
  json.field("cause", loss.cause).field("reason", loss.reason);
  json.field("lost", loss.lost).field("of", loss.of);
}

}  // namespace

bool GradientPaths::vanishes() const {
  if (element || not_finite > 0 || zeros == elements || paths.empty()) return false;
  const std::vector<GradientHop>& way = paths[0];
  return way.size() > 2 && !ends_on_way(*this) &&
         way[way.size() - 2].norm < vanished_gradient * way[1].norm;
}

std::string GradientPaths::text(const Recording& recording, size_t width) const {
  const TapeEntry& own = recording.entries[parameter];
  std::vector<std::string> lines;
  lines.push_back(summary_text(*this, own));
  if (first_not_finite) {
    lines.push_back(fmt::format("  the first NaN or Inf of the step is at {}",
                                place_text(recording, *first_not_finite)));
  }
  if (vanishes()) {
    lines.push_back(vanishing_text(recording, std::span(paths[0]).subspan(1, paths[0].size() - 2)));
  }
  for (size_t i = 0; i < ends.size() && i < most_shown; ++i) {
    const GradientEnd& end = ends[i];
    if (end.entry == parameter) {
      lines.push_back(fmt::format("  {}", loss_text(end.loss, Units::all)));
      continue;
    }
    const char* const way = zeros == elements || count <= 1 ? "" : "one way ";
    lines.push_back(fmt::format("  {}{} at {}, {}", way, end.nearly ? "nearly dies" : "dies",
                                place_text(recording, end.entry), loss_text(end.loss, Units::all)));
  }
  if (ends.size() > most_shown) {
    lines.push_back(
        fmt::format("  ... and at {} more places, all in --json", ends.size() - most_shown));
  }
  std::string result;
  for (const std::string& line : lines) result += wrapped_lines(line, width, "    ");
  for (size_t i = 0; i < paths.size(); ++i) result += path_text(*this, i, recording, width);
  if (!paths.empty()) result += "\ngradient: the norm of what arrives at the operator\n";
  return result;
}

void GradientPaths::write_json(JsonWriter& json, const Recording& recording) const {
  const TapeEntry& own = recording.entries[parameter];
  json.field("parameter", own.name).list("shape", own.shape());
  json.field("element", element);
  json.field("gradient_norm", norm).field("zeros", zeros);
  json.field("not_finite", not_finite).field("elements", elements);
  json.field("alive", zeros < elements).field("vanishes", vanishes());
  json.list("ends", ends, [&](const GradientEnd& end) {
    json.begin_object().field("entry", recording.label(end.entry));
    json.field("layer", recording.entries[end.entry].layer).field("nearly", end.nearly);
    write_loss(json, end.loss);
    json.end_object();
  });
  json.field("path_count", count);
  json.list("paths", paths, [&](const std::vector<GradientHop>& path) {
    json.begin_array();
    for (const GradientHop& hop : path) {
      json.begin_object().field("entry", recording.label(hop.entry));
      json.field("layer", recording.entries[hop.entry].layer).field("gradient_norm", hop.norm);
      json.list("losses", hop.losses, [&](const LostGradient& loss) {
        json.begin_object();
        write_loss(json, loss);
        json.end_object();
      });
      json.end_object();
    }
    json.end_array();
  });
}

}  // namespace whisker
