#include "train/data/labelled_sequences.h"

#include "core/error.h"
#include "data/sequences/labelled_text.h"
#include "data/sequences/listed_examples.h"
#include "data/sequences/sequence_source.h"
#include "data/sequences/series.h"
#include "data/sequences/text_stream.h"
#include "train/data/sequence_sets.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

namespace whisker {
namespace {

constexpr double any = 1;  // bad rows are reported, however many

std::vector<int64_t> all_of(size_t count) {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::unique_ptr<BatchSource> in_order(SequenceSet set, int64_t batch_size) {
  constexpr int64_t buckets = 16;
  const auto shared = std::make_shared<const SequenceSet>(std::move(set));
  return std::make_unique<SequenceSource>(
      shared, sequential_sampler(shared->size()),
      SequenceSourceOptions{.batch_size = batch_size,
                            .buckets = bucket_lengths(shared->lengths, buckets),
                            .shuffle = false});
}

struct Opener {
  const Network& network;
  const std::filesystem::path& path;
  const LabelledOptions& options;
  int64_t batch_size;
  Partition part;

  LabelledSequences operator()(const Preprocess&) const {
    fail(ErrorKind::usage, "{}: the network reads images", path.string());
  }
  LabelledSequences operator()(const TextInput& input) const {
    TokenCounts counts;
    const auto noted = [](std::initializer_list<std::string> some) {
      std::vector<std::string> notes(some);
      std::erase(notes, "");
      return notes;
    };
    if (network.signature().task() == Task::language_model) {
      const std::string text = read_plain_text(path, options.rules);
      input.count(text, counts);
      auto stream = std::make_unique<TextStream>(
          input.encode(text),
          TextStreamOptions{
              .rows = batch_size, .steps = network.signature().usual_steps(), .part = part});
      std::vector<std::string> notes = noted({input.unknown_note(counts), stream->unread_note()});
      return {.source = std::move(stream),
              .bad = {},
              .notes = std::move(notes),
              .contents = contents_of(text)};
    }
    LabelledText text = read_labelled_text(
        path,
        {.label_column = options.label_column.empty() ? input.label_column : options.label_column,
         .text_column = options.text_column.empty() ? input.text_column : options.text_column,
         .header = options.header.value_or(input.header),
         .classes = network.classes(),
         .max_bad = any,
         .name = "evaluate",
         .rules = options.rules});
    if (!options.csv.empty()) keep_listed(text);
    const std::vector<int64_t> all = all_of(text.examples.size());
    const int64_t cut = count_tokens(text, all, input, counts);
    std::ranges::move(noted({input.cut_note(cut, std::ssize(all)), input.unknown_note(counts)}),
                      std::back_inserter(text.notes));
    return {.source = with_labels(encode(text, all, input), text.notes),
            .bad = std::move(text.bad),
            .use = text.use(),
            .notes = std::move(text.notes),
            .contents = contents_of(text),
            .examples = kept(text, all)};
  }
  LabelledSequences operator()(const RowsInput& input) const {
    LabelledRows rows = read_labelled_rows(
        path,
        {.label_column = options.label_column.empty() ? input.label_column : options.label_column,
         .features = input.features,
         .max_bad = any,
         .header = options.header.value_or(input.header),
         .classes = network.classes(),
         .names = input.names,
         .rules = options.rules});
    if (!options.csv.empty()) keep_listed(rows);
    if (rows.labels.empty()) {
      fail(ErrorKind::usage, "evaluate: expected the column of the labels, got 'none'.");
    }
    std::ranges::move(unlike_training(rows, input), std::back_inserter(rows.notes));
    const std::vector<int64_t> all = all_of(rows.values.size());
    return {.source = with_labels(encode(rows, all, input, network.classes()), rows.notes),
            .bad = std::move(rows.bad),
            .notes = std::move(rows.notes),
            .contents = contents_of(rows),
            .examples = kept(rows, all)};
  }
  LabelledSequences operator()(const SeriesInput& input) const {
    SeriesInput as_given = input;
    as_given.header = options.header.value_or(input.header);
    Series series = read_series(path, as_given, any, options.rules);
    SequenceSet windows = cut_windows(series, {.begin = 0, .end = series.rows()}, input);
    std::vector<uint64_t> contents = std::move(windows.contents);
    return {.source = in_order(std::move(windows), batch_size),
            .bad = std::move(series.bad),
            .notes = std::move(series.notes),
            .contents = std::move(contents)};
  }

 private:
  std::unique_ptr<BatchSource> with_labels(SequenceSet set, std::vector<std::string>& notes) const {
    const Signature& signature = network.signature();
    std::string missing =
        missing_classes(set.labels, signature.classes, signature.examples(), "DATA", "evaluation");
    if (!missing.empty()) notes.push_back(std::move(missing));
    return in_order(std::move(set), batch_size);
  }
  template <class Data>
  std::vector<SequenceExample> kept(const Data& data, std::span<const int64_t> indices) const {
    if (options.keep == KeepExamples::no) return {};
    return examples_of(data, indices);
  }
  void add_listed(ListedExamples& listed, std::vector<BadRow>& bad,
                  std::vector<std::string>& notes) const {
    bad = std::move(listed.bad);
    notes.insert(notes.end(), listed.notes.begin(), listed.notes.end());
  }
  void keep_listed(LabelledText& text) const {
    HeldExamples held{.bad = text.bad};
    for (const LabelledText::Example& one : text.examples) {
      held.places.push_back(one.place);
      held.labels.push_back(text.classes[static_cast<size_t>(one.label)]);
    }
    ListedExamples listed = listed_examples(options.csv, held, text.classes);
    std::vector<LabelledText::Example> examples;
    for (size_t i = 0; i < listed.indices.size(); ++i) {
      examples.push_back(std::move(text.examples[static_cast<size_t>(listed.indices[i])]));
      examples.back().label = listed.labels[i];
    }
    text.examples = std::move(examples);
    add_listed(listed, text.bad, text.notes);
  }
  void keep_listed(LabelledRows& rows) const {
    ListedExamples listed = listed_examples(
        options.csv, {.places = rows.places, .labels = rows.labels, .bad = rows.bad},
        network.classes());
    LabelledRows kept{.features = rows.features,
                      .labels = {},
                      .values = {},
                      .places = {},
                      .bad = {},
                      .notes = std::move(rows.notes),
                      .name = rows.name};
    for (size_t i = 0; i < listed.indices.size(); ++i) {
      const auto index = static_cast<size_t>(listed.indices[i]);
      kept.labels.push_back(network.classes()[static_cast<size_t>(listed.labels[i])]);
      kept.values.push_back(std::move(rows.values[index]));
      kept.places.push_back(std::move(rows.places[index]));
    }
    add_listed(listed, kept.bad, kept.notes);
    rows = std::move(kept);
  }
};

}  // namespace

LabelledSequences open_labelled(const Network& network, const std::filesystem::path& path,
                                const LabelledOptions& options, int64_t batch_size,
                                Partition part) {
  return std::visit(Opener{network, path, options, batch_size, part}, network.signature().input);
}

}  // namespace whisker
