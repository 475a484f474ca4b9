#include "train/data/labelled_sequences.h"

#include "core/error.h"
#include "data/sequences/labelled_text.h"
#include "data/sequences/sequence_source.h"
#include "data/sequences/series.h"
#include "data/sequences/text_stream.h"
#include "train/data/sequence_sets.h"

#include <numeric>
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
  const ColumnNames& columns;
  int64_t batch_size;
  Partition part;

  LabelledSequences operator()(const Preprocess&) const {
    fail(ErrorKind::usage, "{}: the network reads images", path.string());
  }
  LabelledSequences operator()(const TextInput& input) const {
    if (network.signature().task() == Task::language_model) {
      return {
          .source = std::make_unique<TextStream>(
              input.encode(read_plain_text(path)),
              TextStreamOptions{
                  .rows = batch_size, .steps = network.signature().usual_steps(), .part = part}),
          .bad = {}};
    }
    LabelledText text = read_labelled_text(
        path,
        {.label_column = columns.label_column.empty() ? input.label_column : columns.label_column,
         .text_column = columns.text_column.empty() ? input.text_column : columns.text_column,
         .header = columns.header.value_or(input.header),
         .classes = network.classes(),
         .max_bad = any,
         .name = "evaluate"});
    return {.source = in_order(encode(text, all_of(text.examples.size()), input), batch_size),
            .bad = std::move(text.bad),
            .use = text.use(),
            .notes = std::move(text.notes)};
  }
  LabelledSequences operator()(const RowsInput& input) const {
    LabelledRows rows = read_labelled_rows(
        path,
        {.label_column = columns.label_column.empty() ? input.label_column : columns.label_column,
         .features = input.features,
         .max_bad = any,
         .header = columns.header.value_or(input.header),
         .classes = network.classes(),
         .names = input.names});
    if (rows.labels.empty()) {
      fail(ErrorKind::usage, "evaluate: expected the column of the labels, got 'none'.");
    }
    return {.source = in_order(encode(rows, all_of(rows.values.size()), input, network.classes()),
                               batch_size),
            .bad = std::move(rows.bad),
            .notes = std::move(rows.notes)};
  }
  LabelledSequences operator()(const SeriesInput& input) const {
    SeriesInput as_given = input;
    as_given.header = columns.header.value_or(input.header);
    Series series = read_series(path, as_given, any);
    return {.source = in_order(cut_windows(series, {.begin = 0, .end = series.rows()}, input),
                               batch_size),
            .bad = std::move(series.bad),
            .notes = std::move(series.notes)};
  }
};

}  // namespace

LabelledSequences open_labelled(const Network& network, const std::filesystem::path& path,
                                const ColumnNames& columns, int64_t batch_size, Partition part) {
  return std::visit(Opener{network, path, columns, batch_size, part}, network.signature().input);
}

}  // namespace whisker
