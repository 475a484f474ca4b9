// One pass over the batches of training and validation.
#include "apps/terminal/sequence_report.h"

#include "apps/terminal/sequence_details.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "train/data/run_data.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <set>

namespace whisker {
namespace {

int64_t length_of(const Batch& batch, int64_t n) {
  return batch.lengths.defined() ? batch.lengths.data<const int64_t>()[static_cast<size_t>(n)]
                                 : batch.inputs.extent(0);
}

// The valid steps of row `n`, as they come.
std::string content_of(const Batch& batch, int64_t n) {
  const int64_t steps = length_of(batch, n);
  const int64_t rows = batch.inputs.extent(1);
  const int64_t step_bytes =
      batch.inputs.bytes() / std::max<int64_t>(1, batch.inputs.extent(0) * rows);
  const auto* bytes = static_cast<const char*>(batch.inputs.raw());
  std::string content;
  for (int64_t t = 0; t < steps; ++t) {
    content.append(bytes + (t * rows + n) * step_bytes, static_cast<size_t>(step_bytes));
  }
  return content;
}

}  // namespace

SequenceReport report_sequences(Config config, bool detailed) {
  if (config.data.kind == DataKind::images) {
    fail(ErrorKind::usage, "data: the configuration is for images. Name their folder instead.");
  }
  std::vector<std::string> notes;
  config = resolve_config(std::move(config), &notes);
  config.data.max_bad = 1;
  check_data_named(config.data);
  const RunData data = open_sequences(config, {}, detailed ? KeepExamples::yes : KeepExamples::no);
  notes.insert(notes.end(), data.notes.begin(), data.notes.end());
  SequenceReport report{
      .described = data.describe(), .bad = data.left_out, .notes = std::move(notes)};
  for (size_t c = 0; c < data.class_counts.size(); ++c) {
    report.per_class[data.signature.classes[c]] = data.class_counts[c];
  }
  if (detailed) report.details.emplace();
  std::vector<int64_t> train_labels(static_cast<size_t>(data.train_size)),
      val_labels(static_cast<size_t>(data.val_size));
  std::set<uint64_t> seen;
  int64_t examples = 0, valid = 0, padded = 0, tokens = 0, unknown = 0;
  report.shortest = data.steps;
  for (const bool training : {true, false}) {
    BatchSource& source = training ? *data.train : *data.val;
    source.start_epoch(0);
    while (const std::optional<Batch> batch = source.next()) {
      for (int64_t n = 0; n < batch->size(); ++n) {
        const std::string content = content_of(*batch, n);
        const uint64_t hash = hash64(content);
        const int64_t length = length_of(*batch, n);
        if (const auto at = static_cast<size_t>(batch->indices[static_cast<size_t>(n)]);
            report.details && !data.signature.classes.empty()) {
          (training ? train_labels : val_labels)[at] =
              batch->labels.data<const int64_t>()[static_cast<size_t>(n)];
        }
        if (training) {
          seen.insert(hash);
          ++examples;
          valid += length;
          padded += batch->inputs.extent(0);
          report.shortest = std::min(report.shortest, length);
          report.longest = std::max(report.longest, length);
          if (report.details) report.details->lengths.push_back(length);
          continue;
        }
        report.also_in_train += seen.contains(hash) ? 1 : 0;
        if (batch->inputs.dtype() != DType::i64) continue;
        tokens += length;
        for (int64_t t = 0; t < length; ++t) {
          const auto at = static_cast<size_t>(t * batch->size() + n);
          unknown += batch->inputs.data<const int64_t>()[at] == Vocabulary::unknown;
        }
      }
    }
  }
  const auto share = [](int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  };
  report.mean_length = share(valid, examples);
  report.padding = 1 - share(valid, padded);
  report.reads_tokens = tokens > 0;
  report.unknown = share(unknown, tokens);
  if (report.details) {
    add_details(
        {.config = config, .data = data, .train_labels = train_labels, .val_labels = val_labels},
        *report.details);
  }
  return report;
}

void write(JsonWriter& json, const SequenceReport& report) {
  json.field("data", report.described).list("bad", report.bad).list("notes", report.notes);
  json.key("classes").begin_object();
  for (const auto& [name, count] : report.per_class) json.field(name, count);
  json.end_object().field("shortest", report.shortest).field("longest", report.longest);
  json.field("mean_length", report.mean_length).field("padding", report.padding);
  json.field("unknown", report.unknown).field("also_in_train", report.also_in_train);
}

std::string to_text(const SequenceReport& report, bool check) {
  std::string text;
  for (const auto* lines : {&report.bad, &report.notes}) {
    for (const std::string& line : *lines) text += printable(line) + "\n";
  }
  if (check) {
    return text + fmt::format(
                      "{}; {} skipped; {}\n", report.described,
                      counted(std::ssize(report.bad), "row"),
                      counted(report.also_in_train, "validation example is also a training example",
                              "validation examples are also training examples"));
  }
  for (const auto& [name, count] : report.per_class) {
    text += fmt::format("{:<24} {:>8}\n", printable(name), count);
  }
  text += fmt::format("{}\nlength {} to {}, mean {:.1f}; {:.1f} % of a training epoch is padding\n",
                      report.described, report.shortest, report.longest, report.mean_length,
                      100 * report.padding);
  if (report.reads_tokens) {
    text += fmt::format("{:.2f} % of the validation tokens are unknown\n", 100 * report.unknown);
  }
  return text;
}

}  // namespace whisker
