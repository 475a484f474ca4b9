#include "train/train_state.h"

namespace whisker {

void TrainState::write(JsonWriter& json) const {
  json.field("epoch", epoch).field("batch", batch).field("step", step);
  json.field("updates", updates).key("loss_scale").begin_object();
  json.field("value", loss_scale.value).field("good_steps", loss_scale.good_steps);
  json.field("skipped_in_row", loss_scale.skipped_in_row).end_object();
  json.field("loss_sum", loss_sum).field("correct", correct).field("pictures", rows);
  json.field("best_metric", best_metric).field("best_epoch", best_epoch);
  json.field("validations", validations).field("stall_metric", stall_metric);
  json.field("stalled", stalled).field("ema_updates", ema_updates);
  json.key("schedule").begin_object().field("factor", schedule.factor);
  json.field("best", schedule.best).field("any", schedule.any);
  json.field("stalled", schedule.stalled).field("cooling", schedule.cooling).end_object();
  json.field("seconds", seconds).field("metrics_bytes", metrics_bytes);
  json.field("epochs", epochs).field("data_fingerprint", data_fingerprint);
  json.field("preprocess", preprocess).field("config", config);
  json.field("plans", plans).field("jpeg_share", jpeg_share);
}

TrainState TrainState::read(const JsonValue& json) {
  TrainState s;
  s.epoch = json.at("epoch").as_int();
  s.batch = json.at("batch").as_int();
  s.step = json.at("step").as_int();
  s.updates = json.at("updates").as_int();
  const JsonValue& loss_scale = json.at("loss_scale");
  s.loss_scale.value = static_cast<float>(loss_scale.at("value").as_double());
  s.loss_scale.good_steps = static_cast<int32_t>(loss_scale.at("good_steps").as_int());
  s.loss_scale.skipped_in_row = static_cast<int32_t>(loss_scale.at("skipped_in_row").as_int());
  s.loss_sum = json.at("loss_sum").as_double();
  s.correct = json.at("correct").as_int();
  s.rows = json.at("pictures").as_int();
  s.best_metric = json.at("best_metric").as_double();
  s.best_epoch = json.at("best_epoch").as_int();
  s.validations = json.at("validations").as_int();
  s.stall_metric = json.at("stall_metric").as_double();
  s.stalled = json.at("stalled").as_int();
  s.ema_updates = json.at("ema_updates").as_int();
  const JsonValue& schedule = json.at("schedule");
  s.schedule.factor = schedule.at("factor").as_double();
  s.schedule.best = schedule.at("best").as_double();
  s.schedule.any = schedule.at("any").as_bool();
  s.schedule.stalled = static_cast<int>(schedule.at("stalled").as_int());
  s.schedule.cooling = static_cast<int>(schedule.at("cooling").as_int());
  s.seconds = json.at("seconds").as_double();
  s.metrics_bytes = json.at("metrics_bytes").as_uint();
  s.epochs = json.at("epochs").as_int();
  s.data_fingerprint = json.at("data_fingerprint").as_string();
  s.preprocess = json.at("preprocess").as_string();
  s.config = json.at("config").as_string();
  s.plans = json.at("plans").as_string();
  if (const JsonValue* share = json.find("jpeg_share")) s.jpeg_share = share->as_double();
  return s;
}

}  // namespace whisker
