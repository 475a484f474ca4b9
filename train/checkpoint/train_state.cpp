#include "train/checkpoint/train_state.h"

#include "core/backend/step_state.h"

#include <cmath>
#include <limits>
#include <optional>

namespace whisker {
namespace {

// The most of anything counted: far from overflow.
constexpr int64_t most = int64_t{1} << 53;

int64_t count(const JsonValue& object, const char* key, int64_t high = most) {
  return object.at(key).as_int(0, high);
}

// A metric that overflowed is null.
std::optional<double> known(double metric) {
  return std::isfinite(metric) ? std::optional(metric) : std::nullopt;
}

double metric_of(const JsonValue& json) {
  return json.is_null() ? std::numeric_limits<double>::infinity() : json.as_double();
}

}  // namespace

void TrainState::write(JsonWriter& json) const {
  json.field("epoch", epoch).field("batch", batch).field("step", step);
  json.field("updates", updates).key("loss_scale").begin_object();
  json.field("value", loss_scale.value).field("good_steps", loss_scale.good_steps);
  json.field("skipped_in_row", loss_scale.skipped_in_row).end_object();
  json.field("loss_sum", loss_sum).field("correct", correct).field("examples", rows);
  json.key("logged").begin_object().field("loss_sum", logged.loss);
  json.field("correct", logged.correct).field("examples", logged.rows).end_object();
  json.field("initial_batches", initial_batches);
  json.field("best_metric", known(best_metric)).field("best_epoch", best_epoch);
  json.field("validations", validations).field("validated_step", validated_step);
  json.field("stall_metric", known(stall_metric));
  json.field("stalled", stalled).field("ema_updates", ema_updates);
  json.key("schedule").begin_object().field("factor", schedule.factor);
  json.field("best", schedule.best).field("any", schedule.any);
  json.field("stalled", schedule.stalled).field("cooling", schedule.cooling);
  json.list("planned_epochs", schedule.planned, [&](const Schedule::PlannedEpochs& planned) {
    json.begin_object().field("step", planned.step).field("epochs", planned.epochs).end_object();
  });
  json.end_object();
  json.field("seconds", seconds).field("metrics_bytes", metrics_bytes);
  if (histogram_bytes > 0) json.field("histogram_bytes", histogram_bytes);
  json.field("epochs", epochs).field("restart", restart).field("time_budget", time_budget);
  json.field("data_fingerprint", data_fingerprint);
  json.field("preprocess", preprocess).field("config", config);
  json.field("plans", plans).field("jpeg_share", jpeg_share);
  json.key("environment").begin_object();
  for (const BackendProperty& one : environment) json.field(one.name, one.value);
  json.end_object().field("unrepeatable", unrepeatable);
}

TrainState TrainState::read(const JsonValue& json) {
  TrainState s;
  s.epochs = json.at("epochs").as_int(1, 1'000'000);  // as train.epochs
  s.epoch = count(json, "epoch", s.epochs);
  s.batch = count(json, "batch");
  s.step = count(json, "step");
  s.updates = count(json, "updates", s.step);
  const JsonValue& loss_scale = json.at("loss_scale");
  s.loss_scale.value = static_cast<float>(
      loss_scale.at("value").as_double(1, double{std::numeric_limits<float>::max()}));
  s.loss_scale.good_steps =
      static_cast<int32_t>(count(loss_scale, "good_steps", loss_scale_interval - 1));
  s.loss_scale.skipped_in_row =
      static_cast<int32_t>(count(loss_scale, "skipped_in_row", most_skipped_in_row - 1));
  s.loss_sum = json.at("loss_sum").as_double(-1e60, 1e60);  // f32 losses times rows
  const char* const examples = json.find("examples") ? "examples" : "pictures";  // until 0.1
  s.rows = count(json, examples);
  s.correct = count(json, "correct", s.rows);
  if (const JsonValue* logged = json.find("logged")) {
    s.logged.loss = logged->at("loss_sum").as_double(-1e60, 1e60);
    s.logged.rows = logged->at(examples).as_int(-most, s.rows);  // below 0: left of the last epoch
    s.logged.correct = logged->at("correct").as_int(-most, s.correct);
  }
  if (json.find("initial_batches")) s.initial_batches = count(json, "initial_batches");
  s.best_metric = metric_of(json.at("best_metric"));
  s.best_epoch = json.at("best_epoch").as_int(-1, s.epoch);
  s.validations = count(json, "validations");
  if (const JsonValue* step = json.find("validated_step"))
    s.validated_step = step->as_int(-1, s.step);
  s.stall_metric = metric_of(json.at("stall_metric"));
  s.stalled = count(json, "stalled", s.validations);
  s.ema_updates = count(json, "ema_updates");
  const JsonValue& schedule = json.at("schedule");
  s.schedule.factor = schedule.at("factor").as_double(0, 1);
  s.schedule.best = schedule.at("best").as_double();
  s.schedule.any = schedule.at("any").as_bool();
  constexpr int64_t most_patience = 1'000'000;  // as schedule.patience and schedule.cooldown
  s.schedule.stalled = static_cast<int>(count(schedule, "stalled", most_patience));
  s.schedule.cooling = static_cast<int>(count(schedule, "cooling", most_patience));
  if (const JsonValue* planned = schedule.find("planned_epochs")) {
    for (const JsonValue& one : planned->items()) {
      s.schedule.planned.push_back(
          {.step = count(one, "step", s.step), .epochs = one.at("epochs").as_double(0, 1e6)});
    }
  }
  s.seconds = json.at("seconds").as_double(0, 1e12);
  s.metrics_bytes = json.at("metrics_bytes").as_uint();
  if (const JsonValue* bytes = json.find("histogram_bytes")) s.histogram_bytes = bytes->as_uint();
  if (json.find("restart")) s.restart = count(json, "restart", 1'000'000);
  if (const JsonValue* budget = json.find("time_budget")) s.time_budget = budget->as_double(-1);
  s.data_fingerprint = json.at("data_fingerprint").as_string();
  s.preprocess = json.at("preprocess").as_string();
  s.config = json.at("config").as_string();
  s.plans = json.at("plans").as_string();
  if (const JsonValue* share = json.find("jpeg_share")) s.jpeg_share = share->as_double(-1, 1);
  if (const JsonValue* environment = json.find("environment")) {
    for (const auto& [name, value] : environment->members()) {
      s.environment.push_back({.name = name, .value = value.as_string()});
    }
    s.unrepeatable = json.at("unrepeatable").as_string();
  }
  return s;
}

}  // namespace whisker
