#include "train/loop/tensorboard_log.h"

#include "core/error.h"
#include "data/codec/encode_jpeg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace whisker {
namespace {

// Of a network's input (H, W, C): the pixels that were normalised.
Image pixels_of(const Tensor& input, const Normalisation& normalisation) {
  Image image;
  image.reshape(static_cast<int>(input.extent(0)), static_cast<int>(input.extent(1)));
  const auto values = input.data<const float>();
  const auto channels = static_cast<size_t>(input.extent(2));
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const size_t c = std::min(i % 3, channels - 1);
    const float value =
        (values[i / 3 * channels + c] - normalisation.offset(c)) / normalisation.factor(c);
    image.rgb[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0F, 255.0F));
  }
  return image;
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
      image = pixels_of(sample.input, dataset.options().preprocess.normalisation);
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
