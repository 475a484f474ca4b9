// The listing as text.
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/tape_listing.h"

#include <algorithm>
#include <cmath>

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
  return text.empty() ? "nothing" : text;
}

// The operands by number or name; with `wanting`, only those that get a gradient.
std::string operands_text(const std::vector<TapeEntry>& entries, const TapeEntry& entry,
                          bool wanting = false) {
  std::string text;
  for (const size_t input : entry.inputs) {
    const TapeEntry& source = entries[input];
    if (wanting && (source.kind == TapeKind::constant || !source.recorded)) continue;
    if (!text.empty()) text += ", ";
    text += source.kind == TapeKind::op ? fmt::format("{}", source.number) : source.name;
  }
  return text;
}

std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? human_bytes(static_cast<uint64_t>(bytes)) : std::string();
}

std::string norm_text(double norm) {
  return std::isnan(norm) ? std::string() : fmt::format("{:.3g}", norm);
}

}  // namespace

std::string TapeListing::str() const {
  TextTable forward(
      {">#", "op", "layer", "of", "output", "dtype", "saved for backward", ">bytes", ">ms"});
  const std::vector<TapeEntry> entries = this->entries();
  double forward_ms = 0, backward_ms = 0, total_ms = 0;
  int64_t saved_bytes = 0;
  int operators = 0, recorded = 0, total = 0;
  for (const TapeEntry& entry : entries_) {
    total += entry.kind == TapeKind::op;
    total_ms += entry.forward_ms;
  }
  std::vector<const TapeEntry*> visited;
  for (const TapeEntry& entry : entries) {
    if (entry.backward_step > 0) visited.push_back(&entry);
    backward_ms += entry.backward_ms;
    if (entry.kind != TapeKind::op) continue;
    int64_t bytes = 0;
    for (const TapeSaved& saved : entry.saved) bytes += saved.bytes;
    forward.add({fmt::format("{}", entry.number), entry.name, entry.layer,
                 operands_text(entries, entry), entry.shape.str(),
                 std::string(name_of(entry.dtype)), saved_text(entry), bytes_text(bytes),
                 fmt::format("{:.3f}", entry.forward_ms)});
    forward_ms += entry.forward_ms;
    ++operators;
    saved_bytes += bytes;
    recorded += entry.recorded;
  }
  std::sort(visited.begin(), visited.end(), [](const TapeEntry* a, const TapeEntry* b) {
    return a->backward_step < b->backward_step;
  });
  std::vector<std::string> headings = {
      ">step", "node", "layer", "gradient arrives", "dtype", "gives gradients to", ">ms"};
  if (options_.gradient_norms) headings.push_back(">norm");
  TextTable backward(headings);
  for (const TapeEntry* entry : visited) {
    const bool leaf = entry->kind == TapeKind::leaf;
    std::vector<std::string> cells = {
        fmt::format("{}", entry->backward_step),
        leaf ? "accumulate" : fmt::format("{} {}", entry->number, entry->name),
        leaf ? entry->name : entry->layer,
        entry->shape.str(),
        std::string(name_of(entry->dtype)),
        operands_text(entries, *entry, true),
        fmt::format("{:.3f}", entry->backward_ms)};
    if (options_.gradient_norms) cells.push_back(norm_text(entry->gradient_norm));
    backward.add(std::move(cells));
  }
  std::string text = fmt::format(
      "forward\n{}\nbackward\n{}\n"
      "forward   {} operators, {} on the tape, {:.3f} ms; {} kept for backward\n"
      "backward  {} steps, {:.3f} ms\n",
      forward.str("  "), backward.str("  "), operators, recorded, forward_ms,
      human_bytes(static_cast<uint64_t>(saved_bytes)), visited.size(), backward_ms);
  if (total > operators) {
    text += fmt::format("beside    {} operators that no gradient passes, {:.3f} ms\n",
                        total - operators, total_ms - forward_ms);
  }
  return text;
}

}  // namespace whisker
