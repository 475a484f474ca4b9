#include "train/inference/image_classifier.h"

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "data/loader/image_reader.h"
#include "train/inference/class_activation.h"
#include "train/inference/image_input.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace whisker {
namespace {

// Rows of `scores` are those of the results without an error.
void check_scores(const Network& network, const Tensor& scores,
                  std::span<const Prediction> results) {
  size_t row = 0;
  for (const Prediction& result : results) {
    if (!result.error.empty()) continue;
    const auto classes = static_cast<size_t>(scores.extent(1));
    network.check_outputs(scores.data<const float>().subspan(row++ * classes, classes),
                          result.name);
  }
}

}  // namespace

void report_predictions(const Network& network, const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report) {
  check_scores(network, scores, results);
  int64_t row = 0;
  for (Prediction& result : results) {
    if (result.error.empty()) {
      const auto classes = static_cast<size_t>(scores.extent(1));
      const auto own =
          scores.data<const float>().subspan(static_cast<size_t>(row++) * classes, classes);
      result.probabilities.assign(own.begin(), own.end());
    }
    report(result);
  }
}

namespace {

/// A batch, from the start of its first file to its report. Row i of the tensors is readable[i]'s.
struct ClassifiedBatch {
  std::vector<Prediction> results;
  ImageInput::Batch images, mirrored_images;
  std::vector<Image> whole;       // of each result; for heat maps
  std::vector<int64_t> readable;  // of the results; empty once they are complete
  Tensor inputs, mirrored;
  Tensor embeddings, scores;  // of a device that may still compute them

  Prediction& result(int64_t row) { return results[static_cast<size_t>(row)]; }
};

void add_rows(const Tensor& values, ClassifiedBatch& batch,
              std::vector<float> Prediction::*member) {
  const auto width = static_cast<size_t>(values.extent(1));
  for (size_t i = 0; i < batch.readable.size(); ++i) {
    const auto own = values.data<const float>().subspan(i * width, width);
    (batch.result(batch.readable[i]).*member).assign(own.begin(), own.end());
  }
}

class ImageClassifier {
 public:
  ImageClassifier(const Network& network, const ImageClassifierOptions& options)
      : network_(network), options_(options), input_(network) {}

  Rect part_read(const ImageHeader& image) const {
    if (options_.heat_map) return {.width = image.width, .height = image.height};
    return input_.part_read(image);
  }

  ClassifiedBatch batch() const {
    ClassifiedBatch batch;
    batch.images = input_.batch(options_.batch_size);
    if (options_.flip) batch.mirrored_images = input_.batch(options_.batch_size);
    if (options_.heat_map) batch.whole.resize(static_cast<size_t>(options_.batch_size));
    return batch;
  }

  /// Starts a file of a batch, which must not move before take(): the reader's threads write to it.
  void start(const std::string& path, ClassifiedBatch& batch, ImageReader& reader) {
    const int64_t row = std::ssize(batch.results);
    batch.results.push_back({.name = path, .probabilities = {}, .error = {}});
    reader.start(path, [this, row, &batch](const Image& image) {
      input_.set(batch.images, row, image);
      if (options_.flip) input_.set(batch.mirrored_images, row, image, true);
      if (options_.heat_map) batch.whole[static_cast<size_t>(row)] = image;
    });
  }

  /// Waits for the batch's files; a GPU has been handed their images, without waiting.
  void take(ClassifiedBatch& batch, ImageReader& reader) {
    for (int64_t row = 0; row < std::ssize(batch.results); ++row) {
      batch.result(row).error = reader.take();
      if (batch.result(row).error.empty()) batch.readable.push_back(row);
    }
    if (batch.readable.empty()) return;
    batch.inputs = input_.take(std::move(batch.images), batch.readable);
    if (options_.flip) {
      batch.mirrored = input_.take(std::move(batch.mirrored_images), batch.readable);
    }
  }

  /// Enqueues the network.
  void compute(ClassifiedBatch& batch) const {
    if (batch.readable.empty()) return;
    const NoGrad no_grad;
    Tensor logits;
    if (options_.embedding) {
      const size_t inner = embedding_layer(network_), last = network_.model().net->size();
      const Tensor values = network_.run_layers({0, inner}, batch.inputs);
      batch.embeddings = pooled(values);
      logits = network_.run_layers({inner, last}, values).to(DType::f32);
    } else {
      logits = network_.outputs(batch.inputs);
    }
    batch.scores = network_.probabilities(logits);
    if (options_.flip) {
      const Tensor mirrored = network_.probabilities(network_.outputs(batch.mirrored));
      batch.scores = affine(add(batch.scores, mirrored), 0.5, 0);
    }
  }

  /// Waits for everything enqueued, and fills the results.
  void fetch(ClassifiedBatch& batch) const {
    if (batch.readable.empty()) return;
    const Tensor scores = batch.scores.to(cpu_device);
    check_scores(network_, scores, batch.results);
    add_rows(scores, batch, &Prediction::probabilities);
    if (options_.embedding) {
      add_rows(batch.embeddings.to(cpu_device), batch, &Prediction::embedding);
    }
    if (options_.heat_map) add_heat_maps(batch);
    batch.readable.clear();
  }

 private:
  void add_heat_maps(ClassifiedBatch& batch) const {
    std::vector<int64_t> classes;
    for (const int64_t row : batch.readable) {
      const std::vector<float>& own = batch.result(row).probabilities;
      classes.push_back(std::ranges::max_element(own) - own.begin());
    }
    const std::vector<ActivationMap> maps = class_activation_maps(network_, batch.inputs, classes);
    for (size_t i = 0; i < maps.size(); ++i) {
      const int64_t row = batch.readable[i];
      batch.result(row).heat_map = with_heat(std::move(batch.whole[static_cast<size_t>(row)]),
                                             maps[i], network_.preprocess());
    }
  }

  const Network& network_;
  const ImageClassifierOptions& options_;
  ImageInput input_;
};

}  // namespace

void classify_images(const Network& network, const NextInputs& next,
                     const ImageClassifierOptions& options,
                     const std::function<void(const Prediction&)>& report) {
  ImageClassifier classifier(network, options);
  std::deque<ClassifiedBatch> batches;  // whose files are started
  // Fills them: ends first.
  ImageReader reader(
      -1, [&](const ImageHeader& image) { return classifier.part_read(image); },
      network.preprocess().rules, options.clips);
  const auto most = static_cast<size_t>(options.batch_size);
  // What is read ahead waits prepared: for a GPU at most 1 MiB, or four times its input's bytes.
  const size_t ahead = options.read_ahead ? 2 * (most + static_cast<size_t>(reader.workers())) : 1;
  size_t started = 0;
  bool more = true;
  const auto start_more = [&] {
    while (more && started < ahead) {
      const size_t room = options.read_ahead ? ahead - started : most;
      const std::vector<std::string> paths = next(std::min(most, room));
      more = !paths.empty();
      started += paths.size();
      for (const std::string& path : paths) {
        if (batches.empty() || batches.back().results.size() == most) {
          batches.push_back(classifier.batch());
        }
        classifier.start(path, batches.back(), reader);
      }
    }
  };
  // The host takes a batch while the device computes the one before. A copy to the host waits for
  // all enqueued work. So the earlier batch is fetched, then the new one enqueued, then the earlier
  // one reported.
  std::optional<ClassifiedBatch> running;
  const auto finish_running = [&] {
    auto batch = std::exchange(running, std::nullopt);
    if (!batch) return;
    classifier.fetch(*batch);
    for (const Prediction& result : batch->results) report(result);
  };
  try {
    for (start_more(); started > 0; start_more()) {
      classifier.take(batches.front(), reader);
      ClassifiedBatch batch = std::move(batches.front());
      batches.pop_front();
      started -= batch.results.size();
      if (running) classifier.fetch(*running);
      classifier.compute(batch);
      finish_running();
      running = std::move(batch);
      if (!options.read_ahead) finish_running();
    }
  } catch (...) {
    finish_running();  // what is computed is reported
    throw;
  }
  finish_running();
  if (options.deep_files) *options.deep_files = reader.deep_files();
  if (options.alpha_files) *options.alpha_files = reader.alpha_files();
}

Tensor classify_images(const Network& network, std::span<const Image> images) {
  if (images.empty())
    fail(ErrorKind::usage, "classify_images: expected an image or more, got none");
  ImageInput input(network);
  ImageInput::Batch batch = input.batch(std::ssize(images));
  std::vector<Prediction> results(images.size());
  std::vector<int64_t> rows(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    rows[i] = static_cast<int64_t>(i);
    results[i].name = fmt::format("image {}", i);
    input.set(batch, rows[i], images[i]);
  }
  const NoGrad no_grad;
  const Tensor logits = network.outputs(input.take(std::move(batch), rows));
  const Tensor scores = network.probabilities(logits).to(cpu_device);
  check_scores(network, scores, results);
  return scores;
}

}  // namespace whisker
