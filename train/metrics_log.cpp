#include "train/metrics_log.h"

#include "core/io/json.h"

namespace whisker {

void MetricsLog::step(const StepEvent& event, double seconds) {
  JsonWriter json;
  json.begin_object()
      .field("kind", "step")
      .field("step", event.step)
      .field("epoch", event.epoch + 1);
  json.field("loss", event.loss).field("accuracy", event.accuracy);
  json.field("learning_rate", event.learning_rate).field("gradient_norm", event.gradient_norm);
  json.field("images_per_s", event.images_per_s).field("seconds", seconds).end_object();
  file_.append(json.str() + "\n");
}

void MetricsLog::epoch(const EpochEvent& event, int64_t step, double seconds) {
  JsonWriter json;
  json.begin_object().field("kind", "epoch").field("epoch", event.epoch + 1);
  json.field("step", step).field("train_loss", event.train_loss);
  json.field("train_accuracy", event.train_accuracy);
  if (event.val_loss) {
    json.field("val_loss", *event.val_loss).field("val_accuracy", *event.val_accuracy);
    json.field("best", event.best);
  }
  json.field("seconds", seconds).key("time").begin_object();
  for (size_t i = 0; i < stage_names.size(); ++i) {
    json.field(stage_names[i], event.times.seconds[i]);
  }
  json.end_object().end_object();
  file_.append(json.str() + "\n");
}

void MetricsLog::validation(const ClassificationMetrics& metrics, bool best, int64_t epoch,
                            int64_t step) {
  JsonWriter json;
  json.begin_object().field("kind", "validation").field("epoch", epoch + 1);
  json.field("step", step).field("val_loss", metrics.loss());
  json.field("val_accuracy", metrics.accuracy()).field("best", best).end_object();
  file_.append(json.str() + "\n");
}

}  // namespace whisker
