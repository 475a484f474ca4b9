#include "train/loop/tensorboard_log.h"

#include "core/error.h"
#include "data/codec/encode_jpeg.h"
#include "train/inference/class_activation.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace whisker {
namespace {

void add_histogram(EventFile& file, const std::string& tag, int64_t step,
                   const TensorSummary& summary) {
  const TensorStatistics& s = summary.statistics;
  std::vector<double> limits, counts;
  const double width = (s.maximum - s.minimum) / static_cast<double>(s.histogram.size());
  for (size_t i = 0; i < s.histogram.size(); ++i) {
    const bool last = i + 1 == s.histogram.size();
    const double limit = last ? s.maximum : s.minimum + static_cast<double>(i + 1) * width;
    const auto count = static_cast<double>(s.histogram[i]);
    if (!limits.empty() && limit <= limits.back()) {  // of equal values there is one bin
      counts.back() += count;
    } else {
      limits.push_back(limit);
      counts.push_back(count);
    }
  }
  const auto count = static_cast<double>(summary.count - s.not_finite);
  file.histogram(tag, step,
                 {.least = s.minimum,
                  .most = s.maximum,
                  .count = count,
                  .sum = count * s.mean,
                  .sum_of_squares = s.norm * s.norm,
                  .limits = limits,
                  .counts = counts});
}

}  // namespace

template <class Write>
void TensorboardLog::attempt(Write write) {
  try {
    write();
  } catch (const Error& error) {
    file_.reset();
    note_ = fmt::format("{} The run goes on without TensorBoard's file.", error.what());
  }
}

void TensorboardLog::begin(const std::filesystem::path& folder, int64_t step) {
  attempt([&] { file_.emplace(folder / "tensorboard", step + 1); });
}

void TensorboardLog::images(const ImageDataset& dataset) {
  constexpr int64_t most = 4;
  const int64_t count = std::min(most, dataset.size());
  for (int64_t i = 0; i < count && file_; ++i) {
    Image image;
    try {
      const Sample sample = dataset.get(i * dataset.size() / count);
      image = seen_image(dataset.options().preprocess.normalisation, sample.input);
    } catch (const Error&) {
      continue;  // validation says which image cannot be read
    }
    attempt([&] {
      const std::vector<uint8_t> jpeg = encode_jpeg(image, {});
      file_->image(fmt::format("validation/{}", i), 0, image.height, image.width,
                   {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
    });
  }
}

void TensorboardLog::step(const StepEvent& event) {
  if (!file_) return;
  attempt([&] {
    if (event.loss) file_->scalar("loss/train", event.step, *event.loss);
    if (event.accuracy) file_->scalar("accuracy/train", event.step, *event.accuracy);
    if (event.gradient_norm) file_->scalar("gradient_norm", event.step, *event.gradient_norm);
    file_->scalar("lr", event.step, event.learning_rate);
  });
}

void TensorboardLog::histograms(const HistogramRow& row) {
  if (!file_) return;
  attempt([&] {
    const auto add = [&](std::string_view kind, const std::string& name,
                         const std::optional<TensorSummary>& summary) {
      if (summary) add_histogram(*file_, fmt::format("{}/{}", kind, name), row.step, *summary);
    };
    for (const LayerHistograms& one : row.layers) {
      add("activations", one.layer, one.activations);
      add("activation_gradients", one.layer, one.gradients);
    }
    for (const ParameterHistograms& one : row.parameters) {
      add("weights", one.name, one.weights);
      add("gradients", one.name, one.gradients);
    }
  });
}

void TensorboardLog::epoch(const EpochEvent& event, int64_t step) {
  if (!file_) return;
  attempt([&] {
    file_->scalar("epoch", step, static_cast<double>(event.epoch + 1));
    if (event.val_loss) add_validation(*event.val_loss, event.val_figures, step);
  });
}

void TensorboardLog::validation(const Metrics& metrics, int64_t step) {
  if (!file_) return;
  attempt([&] { add_validation(metrics.loss(), metrics.figures(), step); });
}

void TensorboardLog::add_validation(double loss, const std::vector<Figure>& figures, int64_t step) {
  file_->scalar("loss/val", step, loss);
  for (const Figure& one : figures) {
    if (one.measured) file_->scalar(fmt::format("{}/val", one.name), step, one.value);
  }
}

std::string TensorboardLog::take_note() {
  return std::exchange(note_, "");
}

}  // namespace whisker
