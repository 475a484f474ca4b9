#include "train/data/run_data.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/tensor/philox.h"
#include "data/files/file_walk.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>

namespace whisker {

std::string RunData::describe() const {
  std::string text =
      fmt::format("{} training and {} validation {}", train_size, val_size, signature.examples());
  if (!signature.classes.empty()) text += fmt::format(" in {} classes", signature.classes.size());
  if (const auto* input = std::get_if<TextInput>(&signature.input)) {
    text += fmt::format(", vocabulary of {}", input->vocabulary.size());
  }
  return text;
}

std::vector<std::string> RunData::val_paths() const {
  if (images.val.files.empty()) return val_places;
  const std::filesystem::path root = std::filesystem::absolute(images.val.root);
  std::vector<std::string> paths;
  for (const ImageFile& file : images.val.files) {
    const std::filesystem::path path = file.path;  // a CSV may list absolute ones
    paths.push_back(path.is_absolute() ? path.lexically_relative(root).string() : file.path);
  }
  return paths;
}

std::string RunData::class_table() const {
  constexpr size_t most = 20;
  const std::vector<std::string>& classes = signature.classes;
  if (classes.empty()) return "";
  TextTable table({"class", ">training", ">share"});
  for (size_t c = 0; c < std::min(classes.size(), most); ++c) {
    const double share = 100 * static_cast<double>(class_counts[c]) /
                         static_cast<double>(std::max<int64_t>(1, train_size));
    table.add({printable(classes[c]), fmt::format("{}", class_counts[c]),
               fmt::format("{:.1f} %", share)});
  }
  if (classes.size() > most) table.add({fmt::format("and {} more", classes.size() - most)});
  std::string text = table.str("  ");
  text.pop_back();  // a message ends without a newline
  return text;
}

RunData open_data(const Config& config, Partition part, KeepExamples keep) {
  check_data_named(config.data);
  if (config.data.kind == DataKind::images) return open_images(config, part);
  return open_sequences(config, part, keep);
}

namespace {

void check_is_there(const char* key, const std::string& path, DataKind kind) {
  std::error_code error;
  if (path.empty() || std::filesystem::exists(path, error)) return;
  if (kind == DataKind::images || kind == DataKind::text) return;  // they say what they expect
  fail(ErrorKind::data, "{}: no file '{}'.", key, printable(path));
}

}  // namespace

void check_data_named(const DataConfig& data) {
  if (data.train.empty()) {
    fail(ErrorKind::usage, "data.train: expected {}, got ''. Add data.train=PATH.",
         data.kind == DataKind::images ? "a folder of class folders" : "a file or a folder");
  }
  check_is_there("data.train", data.train, data.kind);
  check_is_there("data.val", data.val, data.kind);
  std::error_code error;
  if (!data.test.empty() && !std::filesystem::exists(data.test, error)) {
    fail(ErrorKind::data, "data.test: no file or folder '{}'.", printable(data.test));
  }
}

std::unique_ptr<Sampler> make_sampler(const Config& config, std::span<const int64_t> labels,
                                      int64_t classes) {
  const auto seed = static_cast<uint64_t>(config.seed);
  switch (config.data.sampling) {
    case SamplingKind::shuffle:
      return shuffle_sampler(std::ssize(labels), {.seed = seed});
    case SamplingKind::balanced:
      return balanced_sampler(labels, {.seed = seed});
    case SamplingKind::weighted: {  // each class as likely as any other, drawn with replacement
      std::vector<double> counts(static_cast<size_t>(classes));
      for (const int64_t label : labels) ++counts[static_cast<size_t>(label)];
      std::vector<double> weights;
      for (const int64_t label : labels) weights.push_back(1 / counts[static_cast<size_t>(label)]);
      return weighted_sampler(weights, {.seed = seed});
    }
    case SamplingKind::sequential:
      break;
  }
  return sequential_sampler(std::ssize(labels));
}

std::vector<int64_t> overfit_indices(const Config& config, int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, static_cast<uint64_t>(config.seed), stream_of("overfit"), 0);
  const int64_t most = config.train.overfit_batches * config.train.batch_size;
  order.resize(static_cast<size_t>(std::min(size, most)));
  return order;
}

std::vector<std::string> absent_classes(std::span<const int64_t> labels,
                                        std::span<const std::string> classes) {
  std::vector<bool> there(classes.size());
  for (const int64_t label : labels) there[static_cast<size_t>(label)] = true;
  std::vector<std::string> absent;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (!there[c]) absent.push_back(classes[c]);
  }
  return absent;
}

std::string missing_classes(std::span<const int64_t> val_labels,
                            std::span<const std::string> classes, std::string_view examples,
                            std::string_view set, std::string_view measured) {
  const std::vector<std::string> missing = absent_classes(val_labels, classes);
  if (missing.empty()) return "";
  return fmt::format("{} has no {} of {} of the {} classes, on which {} is silent: {}", set,
                     examples, missing.size(), classes.size(), measured, quoted_list(missing));
}

int64_t shown_batch_size(const Config& config) {
  return config.train.batch_size > 0 ? config.train.batch_size : 32;
}

BuildOptions training_build(const Config& config, const RunData& data) {
  BuildOptions options =
      data.signature.build_options(data.part.of(config.train.batch_size), data.steps);
  options.lengths = data.uneven;
  if (config.data.kind == DataKind::images) {
    const ImageSize size = training_preprocess_of(config.data).output();
    options.input = options.input.with(1, size.height).with(2, size.width);
  }
  return options;
}

BuildOptions expected_build(const Config& config) {
  const int64_t rows = shown_batch_size(config);
  const DataConfig& data = config.data;
  if (data.kind == DataKind::images) {
    const ImageSize size = training_preprocess_of(data).output();
    return {.input = {rows, size.height, size.width, data.channels},
            .classes = class_count(config)};
  }
  std::error_code error;
  if (std::filesystem::exists(data.train, error)) {
    const RunData found = open_sequences(config);
    BuildOptions options = found.signature.build_options(rows, found.steps);
    options.lengths = found.uneven;
    return options;
  }
  constexpr int64_t steps = 64;
  const bool text = data.kind == DataKind::text || data.kind == DataKind::language;
  const int64_t vocabulary = data.text.max_vocabulary > 0 ? data.text.max_vocabulary : 100;
  BuildOptions options{.input = {steps, rows, data.rows.features}, .batch_axis = 1, .classes = 2};
  options.lengths = data.kind == DataKind::text || data.kind == DataKind::rows;
  if (text) {
    options.input = {steps, rows};
    options.vocabulary = vocabulary;
  }
  if (data.kind == DataKind::language) {
    options.every_step = true;
    options.classes = vocabulary;
  }
  if (data.kind == DataKind::series) {
    options.input = {data.series.window, rows, std::ssize(data.series.columns)};
    options.classes = 0;
  }
  return options;
}

}  // namespace whisker
