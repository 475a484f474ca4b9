// DOT: one statement per entry, one per operand.
#include "core/trace/tape_graph.h"

#include "core/io/checksum_mark.h"

#include <cmath>

namespace whisker {
namespace {

std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string label_of(const TapeEntry& entry) {
  std::string text =
      entry.kind == TapeKind::op ? fmt::format("{} {}", entry.number, entry.name) : entry.name;
  if (!entry.layer.empty()) text += "  " + entry.layer;
  text += fmt::format("\n{} {}", entry.shape(), entry.dtype());
  if (!std::isnan(entry.gradient_norm())) {
    text += fmt::format("\n|gradient| {:.3g}", entry.gradient_norm());
  }
  return text;
}

std::string_view style_of(const TapeEntry& entry) {
  switch (entry.kind) {
    case TapeKind::op:
      return entry.recorded ? "style=\"rounded,filled\", fillcolor=\"#eef3fa\""
                            : "style=\"rounded,filled\", fillcolor=\"#f1f1f1\"";
    case TapeKind::leaf:
      return "style=filled, fillcolor=\"#fdf1d6\"";
    case TapeKind::constant:
      return "style=filled, fillcolor=\"#e4f2e4\"";
  }
  return "";
}

constexpr std::string_view dot_mark = "// by whisker study graph";

}  // namespace

bool is_tape_dot(std::string_view content) {
  return content.starts_with(dot_mark) && checksum_matches(content, dot_mark);
}

std::string tape_dot(const Recording& recording) {
  std::string text = checksum_mark(dot_mark) + "\ndigraph tape {\n";
  text += fmt::format("  label={}; labelloc=t;\n", dot_string(recording.title));
  text += "  node [shape=box, fontname=\"monospace\", fontsize=11];\n";
  const std::vector<TapeEntry>& entries = recording.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    text += fmt::format("  n{} [label={}, {}];\n", i, dot_string(label_of(entries[i])),
                        style_of(entries[i]));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const TapeInput& input : entries[i].inputs) {
      text += fmt::format("  n{} -> n{};\n", input.entry, i);
    }
  }
  text += "}\n";
  set_checksum(text, dot_mark);
  return text;
}

}  // namespace whisker
