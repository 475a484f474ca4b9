// DOT and Mermaid: one statement per entry, one per operand.
#include "core/trace/tape_graph.h"

#include "core/io/checksum_mark.h"
#include "core/io/text.h"
#include "core/trace/tape_style.h"

#include <cctype>
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
constexpr std::string_view mermaid_mark = "%% by whisker study graph";

// Everything but letters, digits and what a shape needs as the entity #N; of its code point:
// quotes, brackets and Markdown within a label would be read as such.
std::string mermaid_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text, KeptLines::all)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "<br>";
    } else if (byte >= 0x80 || std::isalnum(byte) != 0 ||
               std::string_view(" .,()-_").find(c) != std::string_view::npos) {
      result += c;
    } else {
      result += fmt::format("#{};", byte);
    }
  }
  return result + '"';
}

}  // namespace

bool is_tape_mermaid(std::string_view content) {
  return content.starts_with(mermaid_mark) && checksum_matches(content, mermaid_mark);
}

std::string tape_mermaid(const Recording& recording) {
  std::string text = fmt::format("{}\nflowchart TD\n", checksum_mark(mermaid_mark));
  for (const TapeFamily& family : tape_families()) {
    text += fmt::format("  classDef {} fill:{},stroke:{},color:#1c2733\n", family.name, family.fill,
                        family.stroke);
  }
  const std::vector<TapeEntry>& entries = recording.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool leaf = entries[i].kind == TapeKind::leaf;
    text += fmt::format("  n{}{}{}{}:::{}\n", i, leaf ? "([" : "[",
                        mermaid_string(label_of(entries[i])), leaf ? "])" : "]",
                        family_of(entries[i]).name);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const TapeInput& input : entries[i].inputs) {
      text += fmt::format("  n{} --> n{}\n", input.entry, i);
    }
  }
  set_checksum(text, mermaid_mark);
  return text;
}

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
