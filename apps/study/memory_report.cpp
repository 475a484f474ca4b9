// The peak is the allocator's own; what is kept comes from the tape.
#include "apps/study/memory_report.h"

#include "core/draw/chart.h"
#include "core/io/checksum_mark.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"

#include <algorithm>
#include <map>

namespace whisker {
namespace {

std::string bytes_of(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

int64_t held_as(const MemoryStats& stats, MemoryCategory category) {
  return stats.by_category[static_cast<size_t>(category)];
}

std::string operator_of(const MemorySample& sample) {
  const bool of_operator = sample.backward && sample.name != accumulates;
  return fmt::format("{}{}", of_operator ? "backward of " : "", sample.name);
}

std::string place_of(const MemorySample& sample) {
  return fmt::format("{}{}{}", operator_of(sample), sample.layer.empty() ? "" : ", layer ",
                     printable(sample.layer));
}

constexpr size_t most_rows = 10;

std::string rest_text(size_t rows, std::string_view what) {
  return rows > most_rows ? fmt::format("  ... {} {} more, all in --json\n", rows - most_rows, what)
                          : std::string();
}

constexpr std::string_view memory_mark = "<!-- by whisker study memory";

constexpr MemoryCategory lasting[] = {MemoryCategory::parameters, MemoryCategory::gradients,
                                      MemoryCategory::optimizer, MemoryCategory::input};

}  // namespace

MemoryReport MemoryReport::of(const StudyStep& step) {
  MemoryReport report{.title = step.title, .samples = {}, .predicted = step.predicted_bytes};
  if (step.add_optimizer) step.add_optimizer();
  for (int i = 0; i < 2; ++i) {
    report.first_peak = report.samples.empty() ? 0 : report.peak_bytes();
    MemoryRecorder recorder(step.device);
    step.run(recorder);
    if (step.update) {
      step.update();
      recorder.sample("update");
    }
    report.samples = recorder.take();
  }
  return report;
}

size_t MemoryReport::peak() const {
  const auto highest = std::max_element(
      samples.begin(), samples.end(),
      [](const MemorySample& a, const MemorySample& b) { return a.peak < b.peak; });
  return static_cast<size_t>(highest - samples.begin());
}

// An operator's backward lets go of what it kept once it is over.
int64_t MemoryReport::kept_during(size_t sample) const {
  return samples[sample].backward && sample > 0 ? samples[sample - 1].kept : samples[sample].kept;
}

std::vector<std::pair<std::string, int64_t>> MemoryReport::parts() const {
  const size_t at = peak();
  const MemorySample& own = samples[at];
  std::vector<std::pair<std::string, int64_t>> parts;
  int64_t rest = own.peak;
  const auto add = [&](std::string_view name, int64_t bytes) {
    parts.emplace_back(name, bytes);
    rest -= bytes;
  };
  for (const MemoryCategory category : lasting) {
    add(name_of(category), held_as(own.after, category));
  }
  add("kept for backward", kept_during(at));
  add("workspace", own.peak - own.peak_tensors);
  parts.emplace_back("other activations", rest);
  return parts;
}

// What is kept is given back in the opposite order.
std::vector<size_t> MemoryReport::owners() const {
  std::vector<size_t> keepers;
  int64_t left = kept_during(peak());
  for (size_t i = 0; i < samples.size() && left > 0; ++i) {
    if (samples[i].keeps == 0) continue;
    left -= samples[i].keeps;
    keepers.push_back(i);
  }
  std::stable_sort(keepers.begin(), keepers.end(),
                   [&](size_t a, size_t b) { return samples[a].keeps > samples[b].keeps; });
  return keepers;
}

std::vector<BlockMemory> MemoryReport::blocks() const {
  std::vector<BlockMemory> blocks;
  std::map<std::string, size_t> places;
  for (const MemorySample& sample : samples) {
    if (sample.keeps == 0 || sample.layer.empty()) continue;
    const std::string name = block_of_layer(sample.layer);
    const auto [place, is_new] = places.try_emplace(name, blocks.size());
    if (is_new) blocks.push_back({.block = name});
    blocks[place->second].keeps += sample.keeps;
    blocks[place->second].saves += sample.recomputable;
  }
  std::erase_if(blocks, [](const BlockMemory& one) { return one.saves <= 0; });
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const auto& a, const auto& b) { return a.saves > b.saves; });
  return blocks;
}

std::string MemoryReport::text(size_t width) const {
  const MemorySample& highest = samples[peak()];
  std::string text = fmt::format("{}\npeak {}, at {} {}\n", wrapped_lines(title, width),
                                 bytes_of(peak_bytes()), peak() + 1, place_of(highest));
  TextTable at_peak({"at the peak", ">bytes", ">%"});
  const auto percent = [&](int64_t bytes) {
    return fmt::format("{:.1f}", 100 * static_cast<double>(bytes) /
                                     static_cast<double>(std::max<int64_t>(peak_bytes(), 1)));
  };
  for (const auto& [name, bytes] : parts()) {
    if (bytes > 0) at_peak.add({name, bytes_of(bytes), percent(bytes)});
  }
  text += at_peak.str("  ", width);
  const int64_t most = std::max(first_peak, peak_bytes());
  if (100 * most > 101 * peak_bytes()) {
    text += fmt::format("the first step took {}, as it timed algorithms\n", bytes_of(most));
  }
  if (predicted > 0) {
    text += fmt::format("summary predicts {}: {:+.1f} %\n", bytes_of(predicted),
                        100 * (static_cast<double>(predicted) / static_cast<double>(most)) - 100);
  }
  const std::vector<size_t> keepers = owners();
  if (!keepers.empty()) {
    TextTable kept({">#", "kept at the peak by", "layer", ">bytes", ">%"});
    for (size_t i = 0; i < keepers.size() && i < most_rows; ++i) {
      const MemorySample& one = samples[keepers[i]];
      kept.add({fmt::format("{}", keepers[i] + 1), one.name, one.layer, bytes_of(one.keeps),
                percent(one.keeps)});
    }
    text += "\n" + kept.str("  ", width);
    text += rest_text(keepers.size(), "operators");
  }
  const std::vector<BlockMemory> recomputed = blocks();
  if (!recomputed.empty()) {
    TextTable table({"block", ">keeps", ">recomputing it saves about"});
    for (size_t i = 0; i < recomputed.size() && i < most_rows; ++i) {
      table.add(
          {recomputed[i].block, bytes_of(recomputed[i].keeps), bytes_of(recomputed[i].saves)});
    }
    text += "\n" + table.str("  ", width) + rest_text(recomputed.size(), "blocks");
  }
  TextTable steps({">#", "operator", "layer", ">keeps", ">kept", ">live", ">peak"});
  for (size_t i = 0; i < samples.size(); ++i) {
    const MemorySample& one = samples[i];
    steps.add({fmt::format("{}", i + 1), operator_of(one), one.layer,
               one.keeps == 0 ? "" : bytes_of(one.keeps), bytes_of(one.kept),
               bytes_of(one.after.allocated), bytes_of(one.peak)});
  }
  return text + "\n" + steps.str("  ", width);
}

std::string MemoryReport::json() const {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("network", title);
  json.field("peak_bytes", peak_bytes()).field("peak_at", peak());
  json.field("first_peak_bytes", first_peak);
  json.key("predicted_bytes");
  if (predicted > 0) {
    json.value(predicted);
  } else {
    json.null();
  }
  json.list("parts", parts(), [&](const auto& part) {
    json.begin_object().field("part", part.first).field("bytes", part.second).end_object();
  });
  json.list("owners", owners());
  json.list("blocks", blocks(), [&](const BlockMemory& one) {
    json.begin_object().field("block", one.block).field("keeps_bytes", one.keeps);
    json.field("recomputing_saves_bytes", one.saves).end_object();
  });
  json.list("steps", samples, [&](const MemorySample& one) {
    json.begin_object().field("operator", one.name).field("layer", one.layer);
    json.field("backward", one.backward).field("keeps_bytes", one.keeps);
    json.field("recomputable_bytes", one.recomputable);
    json.field("kept_bytes", one.kept).field("live_bytes", one.after.allocated);
    json.field("peak_bytes", one.peak).field("peak_tensor_bytes", one.peak_tensors);
    for (int i = 0; i < memory_category_count; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      json.field(fmt::format("{}_bytes", name_of(category)), held_as(one.after, category));
    }
    json.end_object();
  });
  return json.end_object().str();
}

std::string MemoryReport::svg() const {
  Chart chart{.title = title,
              .x = {.label = "operators, forward, backward and update"},
              .y = {.label = "memory", .bytes = true, .low = 0}};
  std::vector<double> x, kept, workspace, others, high;
  std::vector<std::vector<double>> held(std::size(lasting));
  for (size_t i = 0; i < samples.size(); ++i) {
    const MemorySample& one = samples[i];
    x.push_back(static_cast<double>(i + 1));
    auto rest = static_cast<double>(one.peak);
    const auto add = [&](std::vector<double>& to, int64_t bytes) {
      to.push_back(static_cast<double>(bytes));
      rest -= to.back();
    };
    for (size_t k = 0; k < held.size(); ++k) add(held[k], held_as(one.after, lasting[k]));
    add(kept, kept_during(i));
    add(workspace, one.peak - one.peak_tensors);
    others.push_back(std::max(0.0, rest));
  }
  for (size_t k = 0; k < held.size(); ++k) {
    chart.series.push_back({std::string(name_of(lasting[k])), SeriesKind::area, x, held[k]});
  }
  chart.series.push_back({"kept for backward", SeriesKind::area, x, kept});
  chart.series.push_back({"other activations", SeriesKind::area, x, others});
  chart.series.push_back({"workspace", SeriesKind::area, x, workspace});
  chart.marks.push_back({static_cast<double>(peak() + 1),
                         fmt::format("peak {}, {}", bytes_of(peak_bytes()), samples[peak()].name),
                         chart.series.size() - 1});
  std::string text = fmt::format("{} -->\n{}", checksum_mark(memory_mark), chart_svg(chart));
  set_checksum(text, memory_mark);
  return text;
}

bool is_memory_svg(std::string_view content) {
  return content.starts_with(memory_mark) && checksum_matches(content, memory_mark);
}

}  // namespace whisker
