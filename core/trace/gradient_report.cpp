// GradientPaths as text and as JSON.
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/gradient_paths.h"
#include "core/trace/local_rule.h"

#include <cmath>

namespace whisker {
namespace {

std::string loss_text(const LostGradient& loss) {
  if (loss.of == 0) return fmt::format("{}: {}", loss.cause, loss.reason);
  const double percent = 100 * static_cast<double>(loss.lost) / static_cast<double>(loss.of);
  return fmt::format("{}: {} in {} of {} ({:.0f} %)", loss.cause, loss.reason, loss.lost, loss.of,
                     percent);
}

std::string place_text(const Recording& recording, size_t entry) {
  const std::string& layer = recording.entries[entry].layer;
  return layer.empty() ? recording.label(entry)
                       : fmt::format("{} of {}", recording.label(entry), printable(layer));
}

void write_loss(JsonWriter& json, const LostGradient& loss) {
  json.field("cause", loss.cause).field("reason", loss.reason);
  json.field("lost", loss.lost).field("of", loss.of);
}

}  // namespace

std::string GradientPaths::text(const Recording& recording, size_t width) const {
  const TapeEntry& own = recording.entries[parameter];
  std::vector<std::string> lines;
  const std::string name =
      fmt::format("{}{} {} {}", own.name, element ? index_in(own.shape(), *element) : std::string(),
                  element ? fmt::format("of {}", own.shape()) : own.shape().str(), own.dtype());
  if (own.kind == TapeKind::constant) {
    lines.push_back(fmt::format("{}: no gradient", name));
  } else if (zeros == elements) {
    lines.push_back(fmt::format("{}: the gradient is 0{}", name,
                                element ? "" : fmt::format(" in all {} elements", elements)));
  } else if (element) {
    lines.push_back(fmt::format("{}: the gradient lives, size {:.4g}", name, norm));
  } else {
    lines.push_back(fmt::format("{}: the gradient lives, norm {:.4g}, 0 in {} of {} elements", name,
                                norm, zeros, elements));
  }
  for (size_t i = 0; i < ends.size() && i < most_shown; ++i) {
    const GradientEnd& end = ends[i];
    const std::string place = end.entry == parameter
                                  ? std::string()
                                  : fmt::format(" at {}", place_text(recording, end.entry));
    const char* const way = zeros == elements ? "" : "one way ";
    lines.push_back(fmt::format("  {}{}{}, {}", way, end.nearly ? "nearly dies" : "dies", place,
                                loss_text(end.loss)));
  }
  if (ends.size() > most_shown) {
    lines.push_back(
        fmt::format("  ... and at {} more places, all in --json", ends.size() - most_shown));
  }
  std::string result;
  for (const std::string& line : lines) {
    if (width == 0) {
      result += line + "\n";
      continue;
    }
    const auto parts = wrap_text(line, width - 4, CutWords::longest);
    result += fmt::format("{}\n", fmt::join(parts, "\n    "));
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    TextTable table({">gradient", "operator", "layer", "lost there"});
    for (const GradientHop& hop : paths[i]) {
      const TapeEntry& entry = recording.entries[hop.entry];
      std::string lost;
      for (const LostGradient& loss : hop.losses) {
        lost += fmt::format("{}{}", lost.empty() ? "" : "; ", loss_text(loss));
      }
      table.add({std::isnan(hop.norm) ? "none" : fmt::format("{:.4g}", hop.norm),
                 recording.label(hop.entry), entry.layer, lost});
    }
    const std::string all =
        count < 1e15 ? grouped(static_cast<int64_t>(count)) : fmt::format("{:.3g}", count);
    result += fmt::format("\npath {} of {} from the loss\n{}", i + 1, all, table.str("  ", width));
  }
  return result;
}

void GradientPaths::write_json(JsonWriter& json, const Recording& recording) const {
  const TapeEntry& own = recording.entries[parameter];
  json.field("parameter", own.name).list("shape", own.shape());
  json.field("element", element);
  json.field("gradient_norm", norm).field("zeros", zeros).field("elements", elements);
  json.field("alive", zeros < elements);
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
