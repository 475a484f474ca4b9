#include "core/trace/step_frames.h"

#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/local_rule.h"
#include "core/trace/recorded_values.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace whisker {
namespace {

// A tensor on a frame: "x = 2 add  (1,3) f32  [0.1, 0.2, 0.3]".
struct ShownTensor {
  std::string name;
  const TapeOutput* tensor;
  const RecordedValues* values;
  std::string note = {};
};

std::vector<std::string> tensor_lines(const std::vector<ShownTensor>& tensors,
                                      const FrameOptions& options) {
  size_t names = 0, kinds = 0;
  const auto kind_of = [](const ShownTensor& one) {
    return fmt::format("{} {}", one.tensor->shape, one.tensor->dtype);
  };
  for (const ShownTensor& one : tensors) {
    names = std::max(names, one.name.size());
    kinds = std::max(kinds, kind_of(one).size());
  }
  names = std::min<size_t>(names, 40);
  std::vector<std::string> lines;
  for (const ShownTensor& one : tensors) {
    std::string line = fmt::format("{:<{}}  {:<{}}  ", one.name, names, kind_of(one), kinds);
    if (!one.note.empty()) line += one.note + "  ";
    if (!options.all_values) {
      const size_t width = options.width == 0 ? 4096 : options.width;
      const size_t left = width > line.size() + 12 ? width - line.size() - 2 : 10;
      lines.push_back(line + brief_values(*one.values, one.tensor->shape, left));
      continue;
    }
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(line);
    for (const std::string& row : all_values(*one.values, one.tensor->shape, one.tensor->dtype)) {
      lines.push_back(fmt::format("  {}", row));
    }
  }
  return lines;
}

void add_line(std::vector<std::string>& lines, std::string line) {
  if (!line.empty()) lines.push_back(std::move(line));
}

std::string source_name(const Recording& recording, const TapeEntry& entry,
                        const TapeInput& input) {
  const std::string name = operand_name(entry, input.position);
  const std::string label = recording.label(input.entry);
  return name == label ? name : fmt::format("{} = {}", name, label);
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

// Once it has run, in backward where it is recomputed.
int64_t bytes_of(const TapeEntry& entry) {
  int64_t bytes = 0;
  for (const TapeSaved& saved : entry.saved) bytes += saved.bytes;
  return bytes;
}

// What the block's operators keep once backward has run them again, without those of blocks inside.
int64_t bytes_again(const std::vector<TapeEntry>& entries, size_t recompute) {
  int64_t bytes = 0;
  const size_t first = first_recomputed(entries, recompute);
  for (size_t i = recompute; i-- > first;) {
    bytes += bytes_of(entries[i]);
    if (entries[i].name == recompute_name) i = std::max(first_recomputed(entries, i), first);
  }
  return bytes;
}

}  // namespace

StepFrames::StepFrames(const Recording& recording) : recording_(recording) {
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    if (recording.entries[i].kind == TapeKind::op) frames_.push_back({.entry = i});
  }
  loss_ = frames_.empty() ? 0 : frames_.size() - 1;
  for (const size_t i : recording.backward_order()) {
    frames_.push_back({.backward = true, .entry = i});
  }
  int64_t bytes = 0;
  for (const StepFrame& frame : frames_) {
    const TapeEntry& entry = recording.entries[frame.entry];
    bytes += frame.backward ? -bytes_of(entry) : entry.saved_bytes();
    if (frame.backward && entry.name == recompute_name) {
      bytes += bytes_again(recording.entries, frame.entry);
    }
    kept_bytes_.push_back(bytes);
  }
}

std::string StepFrames::heading(size_t frame) const {
  const StepFrame& one = frames_[frame];
  const TapeEntry& entry = recording_.entries[one.entry];
  std::string text =
      one.backward ? fmt::format("backward {}", entry.backward_step) : std::string("forward");
  text += entry.kind == TapeKind::leaf ? fmt::format(": accumulate {}", entry.name)
                                       : fmt::format(": {}", recording_.label(one.entry));
  const std::string parts = operator_parts(entry);
  if (parts != entry.name) text += fmt::format(" ({})", parts);
  if (!entry.layer.empty()) text += fmt::format(", layer {}", entry.layer);
  if (!entry.attributes.empty()) text += fmt::format("; {}", entry.attributes);
  return text;
}

std::vector<std::string> StepFrames::forward_lines(size_t frame,
                                                   const FrameOptions& options) const {
  const TapeEntry& entry = recording_.entries[frames_[frame].entry];
  std::vector<std::string> lines;
  add_line(lines, forward_rule(entry));
  std::vector<ShownTensor> tensors;
  for (const TapeInput& input : entry.inputs) {
    const TapeOutput& operand = recording_.entries[input.entry].outputs[input.output];
    tensors.push_back({source_name(recording_, entry, input), &operand, &operand.value});
  }
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    tensors.push_back({entry.outputs.size() == 1 ? "y" : fmt::format("y{}", i), &entry.outputs[i],
                       &entry.outputs[i].value});
  }
  for (std::string& line : tensor_lines(tensors, options)) lines.push_back(std::move(line));
  add_line(lines, forward_example(recording_, entry));
  if (!entry.recorded) {
    lines.emplace_back("not recorded: no operand wants a gradient, backward does not come here");
  } else if (entry.recomputed()) {
    lines.push_back(fmt::format("keeps nothing for backward, which runs it again; {} in all",
                                bytes_text(kept_bytes_[frame])));
  } else {
    lines.push_back(
        entry.saved.empty()
            ? fmt::format("keeps nothing for backward; {} in all", bytes_text(kept_bytes_[frame]))
            : fmt::format("keeps for backward: {}; {}, {} in all",
                          fmt::join(saved_names(recording_, entry), ", "),
                          bytes_text(entry.saved_bytes()), bytes_text(kept_bytes_[frame])));
  }
  if (frame == loss_ && frame + 1 < frames_.size()) {
    lines.emplace_back("backward begins here, with dy = 1");
  }
  return lines;
}

std::vector<std::string> StepFrames::backward_lines(size_t frame,
                                                    const FrameOptions& options) const {
  const TapeEntry& entry = recording_.entries[frames_[frame].entry];
  std::vector<std::string> lines;
  std::vector<ShownTensor> arrived;
  const bool leaf = entry.kind == TapeKind::leaf;
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    if (entry.outputs.size() > 1 && !entry.outputs[i].gradient.known()) continue;
    arrived.push_back({leaf                        ? "its gradient"
                       : entry.outputs.size() == 1 ? "dy"
                                                   : fmt::format("dy{}", i),
                       &entry.outputs[i], &entry.outputs[i].gradient, leaf ? "" : "arrives"});
  }
  for (std::string& line : tensor_lines(arrived, options)) lines.push_back(std::move(line));
  if (leaf) return lines;
  std::vector<std::string> unasked;
  for (const TapeInput& input : entry.inputs) {
    const TapeEntry& source = recording_.entries[input.entry];
    if (source.kind == TapeKind::constant || !source.recorded) {
      unasked.push_back(source_name(recording_, entry, input));
      continue;
    }
    add_line(lines, backward_rule(recording_, entry, input.position));
    add_line(lines, backward_example(recording_, entry, input.position));
  }
  if (!unasked.empty()) {
    lines.push_back(fmt::format("no gradient is asked of {}", fmt::join(unasked, ", ")));
  }
  std::vector<ShownTensor> given;
  for (const TapeInput& input : entry.inputs) {
    const TapeEntry& source = recording_.entries[input.entry];
    if (source.kind == TapeKind::constant || !source.recorded) continue;
    const TapeOutput& target = source.outputs[input.output];
    const auto found = std::find_if(entry.given.begin(), entry.given.end(), [&](const auto& one) {
      const TapeInput& other = entry.inputs[one.input];
      return other.entry == input.entry && other.output == input.output;
    });
    const std::string name = fmt::format("gradient of {}", recording_.label(input.entry));
    if (found == entry.given.end()) {
      given.push_back({name, &target, &target.gradient, "when complete"});
    } else if (&entry.inputs[found->input] == &input) {
      given.push_back({name, &target, &found->sum, found->first ? "is now" : "grows to"});
    }
  }
  for (std::string& line : tensor_lines(given, options)) lines.push_back(std::move(line));
  if (!entry.saved.empty()) {
    lines.push_back(fmt::format("frees {}; {}, {} still kept",
                                fmt::join(saved_names(recording_, entry), ", "),
                                bytes_text(bytes_of(entry)), bytes_text(kept_bytes_[frame])));
  }
  return lines;
}

std::string StepFrames::text(size_t frame, const FrameOptions& options) const {
  std::string text = fmt::format("[{}/{}] {}", frame + 1, frames_.size(), heading(frame));
  std::vector<std::string> lines =
      frames_[frame].backward ? backward_lines(frame, options) : forward_lines(frame, options);
  std::string result;
  const auto append = [&](const std::string& line, size_t indent) {
    const bool fits = options.width == 0 || indent + line.size() <= options.width;
    result += std::string(indent, ' ') +
              wrapped_lines(line, fits ? 0 : options.width, std::string(indent + 4, ' '));
  };
  append(text, 0);
  for (const std::string& line : lines) {
    const size_t extra = std::min(line.find_first_not_of(' '), line.size());
    append(line.substr(extra), 2 + extra);
  }
  return result;
}

void StepFrames::write_json(JsonWriter& json, size_t frame) const {
  const TapeEntry& entry = recording_.entries[frames_[frame].entry];
  const bool backward = frames_[frame].backward;
  const auto values = [&](std::string_view key, const RecordedValues& recorded) {
    if (!recorded.all.empty()) {
      json.list(key, recorded.all);
    } else if (recorded.statistics) {
      const TensorStatistics& s = *recorded.statistics;
      json.key(key).begin_object().field("mean", s.mean).field("deviation", s.deviation);
      json.field("minimum", s.minimum).field("maximum", s.maximum).field("norm", s.norm);
      json.field("zeros", s.zeros).field("not_finite", s.not_finite);
      json.list("histogram", s.histogram).end_object();
    } else {
      json.key(key).null();
    }
  };
  const auto tensor = [&](const TapeOutput& output, const RecordedValues& recorded) {
    json.list("shape", output.shape).field("dtype", name_of(output.dtype));
    values("values", recorded);
    json.end_object();
  };
  json.begin_object().field("frame", frame + 1).field("backward", backward);
  json.field("entry", frames_[frame].entry)
      .field("operator", recording_.label(frames_[frame].entry));
  json.field("layer", entry.layer).field("attributes", entry.attributes);
  if (!backward)
    json.field("rule", forward_rule(entry)).field("example", forward_example(recording_, entry));
  json.list("operands", entry.inputs, [&](const TapeInput& input) {
    const TapeOutput& operand = recording_.entries[input.entry].outputs[input.output];
    json.begin_object().field("name", operand_name(entry, input.position));
    json.field("from", recording_.label(input.entry));
    if (backward) {
      json.field("rule", backward_rule(recording_, entry, input.position));
      json.field("example", backward_example(recording_, entry, input.position));
    }
    tensor(operand, operand.value);
  });
  json.list("outputs", entry.outputs, [&](const TapeOutput& output) {
    json.begin_object();
    tensor(output, backward ? output.gradient : output.value);
  });
  if (backward) {
    json.list("given", entry.given, [&](const GivenGradient& given) {
      const TapeInput& input = entry.inputs[given.input];
      json.begin_object().field("to", recording_.label(input.entry)).field("first", given.first);
      tensor(recording_.entries[input.entry].outputs[input.output], given.sum);
    });
  }
  json.field("kept_bytes", kept_bytes_[frame]).end_object();
}

size_t StepFrames::find(const std::string& text, size_t frame) const {
  for (size_t i = 1; i < frames_.size(); ++i) {
    const size_t candidate = (frame + i) % frames_.size();
    if (heading(candidate).find(text) != std::string::npos) return candidate;
  }
  return frame;
}

}  // namespace whisker
