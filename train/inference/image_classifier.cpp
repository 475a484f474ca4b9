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
void report_predictions(const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report) {
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

void add_rows(const Tensor& values, std::span<Prediction* const> results,
              std::vector<float> Prediction::*member) {
  const auto width = static_cast<size_t>(values.extent(1));
  for (size_t row = 0; row < results.size(); ++row) {
    const auto own = values.data<const float>().subspan(row * width, width);
    (results[row]->*member).assign(own.begin(), own.end());
  }
}

/// Images between their decoding and the report. Row i of the tensors is that of readable[i].
struct ClassifiedBatch {
  std::vector<Prediction> results;
  std::vector<Prediction*> readable;  // empty once the results are there
  std::vector<Image> images;          // the readable ones, where heat maps want them
  Tensor inputs, mirrored;
  Tensor embeddings, scores;  // of a device that may still compute them
};

class ImageClassifier {
 public:
  ImageClassifier(const Network& network, const ImageClassifierOptions& options)
      : network_(network), options_(options), input_(network, options.batch_size) {}

  /// Takes the files that `names` name; a GPU has been handed their images, without waiting.
  ClassifiedBatch take(const std::vector<std::string>& names, ImageReader& reader) {
    ClassifiedBatch batch;
    std::vector<Image> images;
    batch.results.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      Prediction& result = batch.results[i];
      ReadImage read = reader.take();
      result.name = names[i];
      result.error = std::move(read.error);
      if (!result.error.empty()) continue;
      input_.add(read.image);
      batch.readable.push_back(&result);
      if (options_.heat_map || options_.flip) images.push_back(std::move(read.image));
    }
    if (batch.readable.empty()) return batch;
    batch.inputs = input_.take();
    if (options_.flip) {
      for (const Image& image : images) input_.add(image, true);
      batch.mirrored = input_.take();
    }
    if (options_.heat_map) batch.images = std::move(images);
    return batch;
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
    add_rows(batch.scores.to(cpu_device), batch.readable, &Prediction::probabilities);
    if (options_.embedding) {
      add_rows(batch.embeddings.to(cpu_device), batch.readable, &Prediction::embedding);
    }
    if (options_.heat_map) add_heat_maps(batch);
    batch.readable.clear();
  }

 private:
  void add_heat_maps(ClassifiedBatch& batch) const {
    std::vector<int64_t> classes;
    for (const Prediction* result : batch.readable) {
      classes.push_back(std::ranges::max_element(result->probabilities) -
                        result->probabilities.begin());
    }
    const std::vector<ActivationMap> maps = class_activation_maps(network_, batch.inputs, classes);
    for (size_t row = 0; row < batch.readable.size(); ++row) {
      batch.readable[row]->heat_map =
          with_heat(seen_image(network_.preprocess(), batch.images[row]), maps[row]);
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
  ImageReader reader;
  const auto most = static_cast<size_t>(options.batch_size);
  const size_t ahead = options.read_ahead ? 2 * (most + static_cast<size_t>(reader.workers())) : 1;
  std::deque<std::string> started;
  bool more = true;
  const auto read_more = [&] {
    while (more && started.size() < ahead) {
      const size_t room = options.read_ahead ? ahead - started.size() : most;
      const std::vector<std::string> paths = next(std::min(most, room));
      more = !paths.empty();
      for (const std::string& path : paths) {
        reader.start(path);
        started.push_back(path);
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
    for (read_more(); !started.empty(); read_more()) {
      const auto end = started.begin() + std::min(std::ssize(started), options.batch_size);
      const std::vector<std::string> names(started.begin(), end);
      started.erase(started.begin(), end);
      ClassifiedBatch batch = classifier.take(names, reader);
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
}

}  // namespace whisker
