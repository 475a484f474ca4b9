#include "data/sequences/sequence_set.h"

#include "core/error.h"
#include "core/io/hash.h"

#include <algorithm>

namespace whisker {

int64_t SequenceSet::longest() const {
  return lengths.empty() ? 0 : *std::ranges::max_element(lengths);
}

bool SequenceSet::even() const {
  return std::ranges::all_of(lengths, [&](int64_t length) { return length == lengths.front(); });
}

void SequenceSet::add_tokens(std::span<const int64_t> sequence) {
  starts.push_back(std::ssize(tokens));
  lengths.push_back(std::ssize(sequence));
  tokens.insert(tokens.end(), sequence.begin(), sequence.end());
}

void SequenceSet::add_values(std::span<const float> sequence) {
  starts.push_back(std::ssize(values) / features);
  lengths.push_back(std::ssize(sequence) / features);
  values.insert(values.end(), sequence.begin(), sequence.end());
}

std::string SequenceSet::fingerprint() const {
  Hash64 hash;
  const auto update = [&](const auto& all) {
    const auto count = all.size();
    hash.update(std::as_bytes(std::span(&count, 1)));
    hash.update(std::as_bytes(std::span(all)));
  };
  update(tokens);
  update(values);
  update(starts);
  update(lengths);
  update(labels);
  update(targets);
  return hash.hex();
}

Batch make_batch(const SequenceSet& set, std::span<const int64_t> indices, int64_t steps) {
  const int64_t rows = std::ssize(indices);
  const int64_t features = std::max<int64_t>(1, set.features);
  Batch batch;
  batch.indices.assign(indices.begin(), indices.end());
  batch.labels = full({rows}, -1, {.dtype = DType::i64});
  batch.inputs = set.features == 0 ? zeros({steps, rows}, {.dtype = DType::i64})
                                   : zeros({steps, rows, set.features});
  const auto fill = [&](const auto& from, auto to) {
    for (int64_t n = 0; n < rows; ++n) {
      const auto i = static_cast<size_t>(indices[static_cast<size_t>(n)]);
      if (set.lengths[i] > steps) {
        fail(ErrorKind::internal, "make_batch: a sequence of {} steps in a batch of {}",
             set.lengths[i], steps);
      }
      for (int64_t t = 0; t < set.lengths[i]; ++t) {
        const auto* step = from.data() + (set.starts[i] + t) * features;
        std::copy_n(step, features, to.begin() + (t * rows + n) * features);
      }
    }
  };
  if (set.features == 0) {
    fill(set.tokens, batch.inputs.data<int64_t>());
  } else {
    fill(set.values, batch.inputs.data<float>());
  }
  const bool even = set.even();
  if (!even) batch.lengths = empty({rows}, {.dtype = DType::i64});
  if (set.outputs > 0) batch.targets = empty({rows, set.outputs});
  for (size_t n = 0; n < indices.size(); ++n) {
    const auto i = static_cast<size_t>(indices[n]);
    if (!even) batch.lengths.data<int64_t>()[n] = set.lengths[i];
    if (!set.labels.empty()) batch.labels.data<int64_t>()[n] = set.labels[i];
    if (set.outputs == 0) continue;
    std::copy_n(set.targets.begin() + static_cast<std::ptrdiff_t>(i) * set.outputs, set.outputs,
                batch.targets.data<float>().begin() + static_cast<std::ptrdiff_t>(n) * set.outputs);
  }
  batch.bases = set.bases;
  return batch;
}

}  // namespace whisker
