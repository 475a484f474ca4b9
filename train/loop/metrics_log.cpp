#include "train/loop/metrics_log.h"

#include "core/io/json.h"

#include <vector>

namespace whisker {
namespace {

void write_validation(JsonWriter& json, double loss, const std::vector<Figure>& figures) {
  json.field("val_loss", loss);
  for (const Figure& one : figures) json.field(fmt::format("val_{}", one.name), one.json_value());
}

}  // namespace

void MetricsLog::append(const std::string& line) {
  if (file_) file_->append(line + "\n");
}

void MetricsLog::begin_csv(const std::filesystem::path& folder, const Metrics& metrics) {
  if (!file_) return;
  std::vector<std::string> names;
  for (const Figure& one : metrics.figures()) names.emplace_back(one.name);
  csv_.begin(folder, names);
}

void MetricsLog::begin_tensorboard(const std::filesystem::path& folder, int64_t step,
                                   const ImageDataset* images) {
  if (!file_) return;
  tensorboard_.begin(folder, step);
  if (images && step == 0) tensorboard_.images(*images);
}

std::string MetricsLog::take_note() {
  std::string note = csv_.take_note();
  return note.empty() ? tensorboard_.take_note() : note;
}

void MetricsLog::step(const StepEvent& event, double seconds) {
  JsonWriter json(NonFinite::null);
  json.begin_object()
      .field("kind", "step")
      .field("step", event.step)
      .field("epoch", event.epoch + 1);
  if (event.loss) json.field("loss", *event.loss);
  if (event.accuracy) json.field("accuracy", *event.accuracy);
  if (event.epoch_loss) json.field("epoch_loss", *event.epoch_loss);
  if (event.epoch_accuracy) json.field("epoch_accuracy", *event.epoch_accuracy);
  json.field("learning_rate", event.learning_rate);
  if (event.gradient_norm) json.field("gradient_norm", *event.gradient_norm);
  json.field("images_per_s", event.examples_per_s);
  if (event.ranks) {
    json.field("communication", event.ranks->communication);
    json.field("slowest_rank", event.ranks->slowest).field("slowest_excess", event.ranks->excess);
  }
  json.field("seconds", seconds).end_object();
  append(json.str());
  tensorboard_.step(event);
}

void MetricsLog::epoch(const EpochEvent& event, int64_t step, double seconds) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("kind", "epoch").field("epoch", event.epoch + 1);
  json.field("step", step).field("learning_rate", event.learning_rate);
  json.field("train_loss", event.train_loss);
  if (event.train_accuracy) json.field("train_accuracy", *event.train_accuracy);
  if (event.val_loss) {
    write_validation(json, *event.val_loss, event.val_figures);
    json.field("best", event.best);
  }
  json.field("seconds", seconds).key("time").begin_object();
  for (size_t i = 0; i < stage_names.size(); ++i) {
    json.field(stage_names[i], event.times.seconds[i]);
  }
  json.end_object().end_object();
  append(json.str());
  csv_.add(json.str());
  tensorboard_.epoch(event, step);
}

void MetricsLog::validation(const Metrics& metrics, bool best, int64_t epoch, int64_t step) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("kind", "validation").field("epoch", epoch + 1);
  json.field("step", step);
  write_validation(json, metrics.loss(), metrics.figures());
  json.field("best", best).end_object();
  append(json.str());
  tensorboard_.validation(metrics, step);
}

}  // namespace whisker
