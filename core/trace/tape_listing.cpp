// Two tables, and a line of totals for each.
#include "core/trace/tape_listing.h"

#include "core/io/text.h"
#include "core/io/text_table.h"

namespace whisker {
namespace {

std::string saved_text(const TapeEntry& entry) {
  std::string text;
  for (const TapeSaved& saved : entry.saved) {
    if (!text.empty()) text += ", ";
    text += saved.what;
    if (saved.what == "workspace") text += fmt::format(" {} {}", saved.shape, saved.dtype);
  }
  if (!entry.recorded) return "not recorded";
  if (entry.recomputed()) return "nothing: recomputed";
  return text.empty() ? "nothing" : text;
}

// The operands by number or name; with `wanting`, only those that get a gradient.
std::string operands_text(const std::vector<TapeEntry>& entries, const TapeEntry& entry,
                          bool wanting = false) {
  std::string text;
  for (const TapeInput& input : entry.inputs) {
    const TapeEntry& source = entries[input.entry];
    if (wanting && (source.kind == TapeKind::constant || !source.recorded)) continue;
    if (!text.empty()) text += ", ";
    text += source.kind == TapeKind::op ? fmt::format("{}", source.number) : source.name;
  }
  return text;
}

std::string listed_bytes(int64_t bytes) {
  return bytes > 0 ? human_bytes(static_cast<uint64_t>(bytes)) : std::string();
}

// All times are equally wide, so that the other columns of a listing do not depend on them.
std::string ms_text(double ms) {
  return fmt::format("{:8.3f}", ms);
}

std::string norm_text(double norm) {
  return std::isnan(norm) ? std::string() : fmt::format("{:.3g}", norm);
}

}  // namespace

std::string tape_listing(const Recording& recording, size_t width) {
  TextTable forward(
      {">#", "op", "layer", "of", "output", "dtype", "saved for backward", ">bytes", ">ms"});
  const std::vector<TapeEntry>& entries = recording.entries;
  double forward_ms = 0, backward_ms = 0;
  int64_t saved_bytes = 0;
  int operators = 0, recorded = 0;
  bool norms = false;
  for (const TapeEntry& entry : entries) {
    backward_ms += entry.backward_ms;
    norms = norms || entry.outputs[0].gradient.known();
    if (entry.kind != TapeKind::op) continue;
    const int64_t bytes = entry.saved_bytes();
    forward.add({fmt::format("{}", entry.number), entry.name, entry.layer,
                 operands_text(entries, entry), entry.shape().str(),
                 std::string(name_of(entry.dtype())), saved_text(entry), listed_bytes(bytes),
                 ms_text(entry.forward_ms)});
    forward_ms += entry.forward_ms;
    ++operators;
    saved_bytes += bytes;
    recorded += entry.recorded;
  }
  std::vector<std::string> headings = {
      ">step", "node", "layer", "gradient arrives", "dtype", "gives gradients to", ">ms"};
  if (norms) headings.push_back(">norm");
  TextTable backward(headings);
  const std::vector<size_t> visited = recording.backward_order();
  for (const size_t index : visited) {
    const TapeEntry& entry = entries[index];
    const bool leaf = entry.kind == TapeKind::leaf;
    std::vector<std::string> cells = {fmt::format("{}", entry.backward_step),
                                      leaf ? "accumulate" : recording.label(index),
                                      leaf ? entry.name : entry.layer,
                                      entry.shape().str(),
                                      std::string(name_of(entry.dtype())),
                                      operands_text(entries, entry, true),
                                      ms_text(entry.backward_ms)};
    if (norms) cells.push_back(norm_text(entry.gradient_norm()));
    backward.add(std::move(cells));
  }
  std::string text = fmt::format(
      "forward\n{}\nbackward\n{}\n"
      "forward   {} operators, {} on the tape, {:.3f} ms; {} kept for backward\n"
      "backward  {} steps, {:.3f} ms\n",
      forward.str("  ", width), backward.str("  ", width), operators, recorded, forward_ms,
      human_bytes(static_cast<uint64_t>(saved_bytes)), visited.size(), backward_ms);
  if (recording.beside > 0) {
    text += fmt::format("beside    {} operators that no gradient passes, {:.3f} ms\n",
                        recording.beside, recording.beside_ms);
  }
  return text;
}

}  // namespace whisker
