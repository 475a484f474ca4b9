#include "data/sequences/text_stream.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/hash.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace whisker {

TextStream::TextStream(std::vector<int64_t> tokens, TextStreamOptions options)
    : tokens_(std::move(tokens)), options_(options) {
  if (options_.rows < 1 || options_.steps < 1) {
    fail(ErrorKind::usage, "text stream: expected at least 1 row and 1 step, got {} and {}",
         options_.rows, options_.steps);
  }
  row_steps_ = (std::ssize(tokens_) - 1) / options_.rows;
  if (row_steps_ < 1) {
    const int64_t most = std::ssize(tokens_) - 1;
    fail(ErrorKind::data, "data: a text of {} is too short for {}. Use a longer text{}.",
         counted(std::ssize(tokens_), "token"), counted(options_.rows, "row"),
         most < 1
             ? std::string()
             : fmt::format(", or a batch size of at most {} (train.batch_size, or --batch-size "
                           "of evaluate)",
                           most));
  }
}

int64_t TextStream::batches() const {
  return count_batches(row_steps_, options_.steps, false);
}

void TextStream::start_epoch(int64_t epoch, int64_t first_batch) {
  check_start("text stream", epoch, first_batch, batches());
  next_ = first_batch;
}

std::optional<Batch> TextStream::next() {
  if (next_ >= batches()) return std::nullopt;
  const int64_t first = next_ * options_.steps;
  const int64_t steps = std::min(options_.steps, row_steps_ - first);
  const Partition part = options_.part;
  const int64_t rows = part.of(options_.rows);
  Batch batch;
  batch.inputs = empty({steps, rows}, {.dtype = DType::i64});
  batch.labels = empty({steps, rows}, {.dtype = DType::i64});
  const auto inputs = batch.inputs.data<int64_t>();
  const auto labels = batch.labels.data<int64_t>();
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t* const row = tokens_.data() + (part.rank + n * part.world) * row_steps_ + first;
    for (int64_t t = 0; t < steps; ++t) {
      inputs[static_cast<size_t>(t * rows + n)] = row[t];
      labels[static_cast<size_t>(t * rows + n)] = row[t + 1];
    }
  }
  batch.indices.resize(static_cast<size_t>(rows));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  batch.continues = next_ > 0;
  batch.all_rows = options_.rows;
  ++next_;
  stats_.samples += rows * steps;
  ++stats_.batches;
  return batch;
}

std::string TextStream::unread_note() const {
  const int64_t unread = std::ssize(tokens_) - 1 - predictions();
  if (unread == 0) return "";
  return fmt::format(
      "the last {} of {} not read, as the {} rows of a batch are equally long "
      "(train.batch_size, of evaluate --batch-size)",
      unread, counted(std::ssize(tokens_), "token is", "tokens are"), options_.rows);
}

std::string TextStream::fingerprint() const {
  Hash64 hash;
  hash.update(std::as_bytes(std::span(tokens_)));
  return hash.hex();
}

}  // namespace whisker
