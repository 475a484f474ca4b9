// What a loader's workers do with the rows that they claimed: examples are read into them, bad ones
// replaced or left out, and a batch is made of them all.
#include "core/error.h"
#include "data/loader.h"
#include "data/mix.h"

#include <utility>

namespace whisker {

// Fills a row, with the next readable example where the wanted one is bad. Returns the bad ones.
std::vector<BadSample> Loader::produce_row(Work& work, int64_t row) {
  std::vector<BadSample> bad;
  int64_t& index = work.indices[static_cast<size_t>(row)];
  while (std::optional<BadSample> failure = read_row(work, row, index)) {
    bad.push_back(std::move(*failure));
    // Beyond the limit the run stops when this batch is due, so there is no need to search on.
    if (options_.on_bad == OnBad::skip || std::ssize(bad) > bad_.most()) {
      index = -1;
      break;
    }
    index = (index + 1) % dataset_->size();
  }
  for (BadSample& one : bad) one.replacement = index;
  return bad;
}

std::optional<BadSample> Loader::read_row(Work& work, int64_t row, int64_t index) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = unreadable_.find(index);
    if (known != unreadable_.end()) return BadSample{.index = index, .reason = known->second};
  }
  try {
    if (options_.collate) {
      work.samples[static_cast<size_t>(row)] =
          dataset_->sample({.index = index, .epoch = work.epoch});
    } else {
      const SampleKey key{.index = index, .epoch = work.epoch};
      PictureRows* const pictures = work.buffer->pictures();
      work.buffer->labels()[static_cast<size_t>(row)] =
          pictures ? dataset_->stage(key, *pictures, row)
                   : dataset_->write(key, work.buffer->row(row));
    }
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return BadSample{.index = index, .reason = error.what()};
  }
}

// Closes the gaps that left-out rows made, decodes what a device is to decode, mixes, and makes the
// tensors.
void Loader::finish_batch(Work& work) {
  std::vector<int64_t>& indices = work.indices;
  size_t rows = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;
    if (rows != i && options_.collate) work.samples[rows] = std::move(work.samples[i]);
    if (rows != i && !options_.collate) {
      work.buffer->move_row(static_cast<int64_t>(i), static_cast<int64_t>(rows));
    }
    indices[rows++] = indices[i];
  }
  indices.resize(rows);
  if (rows == 0) return;
  if (options_.collate) {
    work.samples.resize(rows);
    work.batch = options_.collate(work.samples,
                                  {.epoch = work.epoch, .number = work.number, .indices = indices});
    work.batch.indices = std::move(indices);
    work.samples.clear();
    return;
  }
  if (PictureRows* const pictures = work.buffer->pictures()) {
    decoding_.finish(*pictures, static_cast<int64_t>(rows));
  }
  if (options_.mix.enabled()) {
    const PictureSize size{static_cast<int>(sample_shape_[0]), static_cast<int>(sample_shape_[1])};
    const DrawKey key{.seed = options_.mix.seed,
                      .epoch = static_cast<uint64_t>(work.epoch),
                      .index = static_cast<uint64_t>(work.number)};
    const auto classes = static_cast<size_t>(options_.mix.classes);
    const BatchMix mix = sample_mix(options_.mix.augment, key, size);
    mix_labels(mix, work.buffer->labels().first(rows),
               work.buffer->soft_labels().first(rows * classes));
    if (PictureRows* const pictures = work.buffer->pictures()) {
      pictures->mix = mix;
    } else {
      mix_images(mix, {.images = {work.buffer->row(0).data(), rows * work.buffer->row(0).size()},
                       .rows = static_cast<int64_t>(rows),
                       .height = size.height,
                       .width = size.width});
    }
  }
  work.batch = view_batch(std::move(work.buffer), sample_shape_, std::move(indices));
}

}  // namespace whisker
