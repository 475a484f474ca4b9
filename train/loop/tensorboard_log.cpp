#include "train/loop/tensorboard_log.h"

#include "core/error.h"

#include <utility>

namespace whisker {

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
