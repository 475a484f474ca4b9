// The file is a safetensors file: the metadata of weights, and in "non_finite" the step as JSON;
// tensors "parameter.NAME" in memory's order, "batch.inputs" and so on, "state.h.LAYER".
#include "train/loop/failed_step.h"

#include "core/autograd/autograd.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/ops/ops.h"
#include "core/trace/step_recorder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/freeze_layers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view parameter_prefix = "parameter.";
constexpr std::pair<std::string_view, Tensor Batch::*> batch_tensors[] = {
    {"batch.inputs", &Batch::inputs},
    {"batch.labels", &Batch::labels},
    {"batch.soft_labels", &Batch::soft_labels},
    {"batch.targets", &Batch::targets},
    {"batch.lengths", &Batch::lengths}};

WeightsTensor stored(std::string name, const Tensor& tensor) {
  const Tensor host = tensor.to(cpu_device);
  WeightsTensor result{.name = std::move(name), .dtype = host.dtype(), .shape = {}, .bytes = {}};
  for (const int64_t extent : host.shape()) result.shape.push_back(static_cast<uint64_t>(extent));
  const auto* bytes = static_cast<const std::byte*>(host.raw());
  result.bytes.assign(bytes, bytes + host.bytes());
  return result;
}

Tensor tensor_of(const SafetensorsFile& file, const SafetensorsTensor& one) {
  std::vector<int64_t> extents;
  bool fits = one.shape.size() <= static_cast<size_t>(Shape::max_rank);
  for (const uint64_t extent : one.shape) {
    extents.push_back(static_cast<int64_t>(extent));
    fits = fits && extent < uint64_t{1} << 48;
  }
  if (!fits) {
    fail(ErrorKind::checkpoint, "{}: {}: expected at most {} axes, each below 2^48", file.name(),
         one.name, Shape::max_rank);
  }
  const Tensor tensor = empty(Shape(std::span<const int64_t>(extents)), {.dtype = one.dtype});
  std::memcpy(tensor.raw(), one.bytes.data(), one.bytes.size());
  return tensor;
}

bool is_finite_row(std::span<const double> row) {
  return std::ranges::all_of(row, [](double value) { return std::isfinite(value); });
}

}  // namespace

uint64_t keep_failed_step(const fs::path& file, const Experiment& experiment, FailedStep step,
                          const std::optional<Batch>& batch, const CarriedStates& states) {
  const ParameterArena& arena = *experiment.arena;
  uint64_t bytes = 0;
  for (const auto& one : arena.parameters()) bytes += static_cast<uint64_t>(one->master().bytes());
  for (const auto& [name, member] : batch_tensors) {
    if (batch && ((*batch).*member).defined()) {
      bytes += static_cast<uint64_t>(((*batch).*member).bytes());
    }
  }
  if (bytes > most_failed_step_bytes) {
    fail(ErrorKind::disk, "it needs {}, of at most {}", human_bytes(bytes),
         human_bytes(most_failed_step_bytes));
  }
  Snapshot tensors;
  bool unfrozen = false;
  for (const auto& one : arena.parameters()) {
    tensors.push_back(stored(fmt::format("{}{}", parameter_prefix, one->name()), one->master()));
    unfrozen = unfrozen || (one->frozen_at_first() && one->trains());
  }
  JsonWriter json;
  json.begin_object().field("what", step.what).field("found", step.found);
  json.field("epoch", step.epoch).field("step", step.step).field("batch", step.batch);
  json.field("rank", experiment.ranks->rank()).field("loss_scale", step.loss_scale);
  json.field("device", fmt::format("{}", experiment.device));
  json.field("precision", name_of(arena.compute_dtype())).field("unfrozen", unfrozen);
  json.list("class_counts", experiment.data.class_counts);
  if (batch) {
    for (const auto& [name, member] : batch_tensors) {
      const Tensor& tensor = (*batch).*member;
      if (tensor.defined()) tensors.push_back(stored(std::string(name), tensor));
    }
    json.list("indices", batch->indices).field("first_layer", batch->first_layer);
    json.field("continues", batch->continues).field("all_rows", batch->all_rows);
    add_states(states, tensors);
  }
  auto metadata = experiment.weights_info(step.epoch, "").to_metadata();
  metadata["format"] = "whisker non-finite step";
  metadata["version"] = "1";
  metadata["non_finite"] = json.end_object().str();
  return write_safetensors(file, metadata, entries_of(tensors)).bytes;
}

KeptStep::KeptStep(const fs::path& path) : file_(SafetensorsFile::open(path)) {
  const auto& metadata = file_.metadata();
  const auto found = metadata.find("non_finite");
  if (found == metadata.end() || metadata.find("version") == metadata.end()) {
    fail(ErrorKind::checkpoint, "{}: expected a file that a diverged run wrote, got another one",
         file_.name());
  }
  if (metadata.at("version") != "1") {
    fail(ErrorKind::checkpoint, "{}: version {} is not supported by this program, which reads 1.",
         file_.name(), excerpt(metadata.at("version")));
  }
  info_ = WeightsInfo::from_file(file_);
  const fs::path own = path.parent_path() / "config.yaml";
  config_ = read_config_text(info_.config, fmt::format("{}: config", file_.name()));
  try {  // its lines, where it still is that network's
    const Config there = read_run_config(own.string());
    if (there.model == config_.model) config_.model = there.model;
  } catch (const Error&) {  // the file says enough
  }
  const JsonValue json = JsonValue::parse(
      found->second, {.name = file_.name(), .max_depth = 3, .kind = ErrorKind::checkpoint});
  step_ = {.what = json.at("what").as_string(),
           .found = json.at("found").as_string(),
           .epoch = json.at("epoch").as_int(1),
           .step = json.at("step").as_int(0),
           .batch = json.at("batch").as_int(0),
           .rank = json.at("rank").as_int(0, 1 << 20),
           .loss_scale = json.at("loss_scale").as_double(0x1p-60, 0x1p127),
           .device = json.at("device").as_string()};
  const std::string& precision = json.at("precision").as_string();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    if (precision == name_of(dtype)) step_.precision = dtype;
  }
  unfrozen_ = json.at("unfrozen").as_bool();
  for (const JsonValue& one : json.at("class_counts").items()) {
    class_counts_.push_back(one.as_int(0, int64_t{1} << 40));
  }
  if (!json.find("indices")) return;
  batch_.emplace();
  for (const JsonValue& one : json.at("indices").items()) batch_->indices.push_back(one.as_int(0));
  batch_->first_layer = static_cast<size_t>(json.at("first_layer").as_int(0, 1 << 20));
  batch_->continues = json.at("continues").as_bool();
  batch_->all_rows = json.at("all_rows").as_int(0);
  for (const auto& [name, member] : batch_tensors) {
    if (const SafetensorsTensor* one = file_.find(name)) {
      (*batch_).*member = tensor_of(file_, *one);
    }
  }
  const Model model = build();
  const bool series = info_.signature.task() == Task::regression;
  const Tensor& inputs = batch_->inputs;
  const Tensor& told = series ? batch_->targets : batch_->labels;
  const int axis = model.batch_axis;
  const bool fits = inputs.defined() && told.defined() && inputs.rank() > axis &&
                    inputs.extent(axis) == batch_->size() && batch_->size() > 0 &&
                    batch_->first_layer <= model.net->size();
  if (!fits) {
    fail(ErrorKind::checkpoint, "{}: its batch is not one of its network: inputs {}, {} rows",
         file_.name(), inputs.defined() ? fmt::format("{}", inputs.shape()) : "missing",
         batch_->size());
  }
  for (const SafetensorsTensor& one : file_.tensors()) {
    const bool hidden = one.name.starts_with("state.h.");
    if (!hidden && !one.name.starts_with("state.c.")) continue;
    RecurrentState& state = states_[one.name.substr(std::string_view("state.h.").size())];
    (hidden ? state.h : state.c) = tensor_of(file_, one);
  }
}

Model KeptStep::build() const {
  Model model =
      build_model(config_.model, info_.signature.build_options(1, info_.signature.usual_steps()));
  freeze_layers(config_, model);
  return model;
}

std::vector<std::string> KeptStep::damaged_weights() const {
  std::vector<std::string> names;
  for (const SafetensorsTensor& one : file_.tensors()) {
    if (!one.name.starts_with(parameter_prefix) || all_finite(one.dtype, one.bytes)) continue;
    names.push_back(one.name.substr(parameter_prefix.size()));
  }
  return names;
}

std::vector<int64_t> KeptStep::damaged_rows() const {
  std::vector<int64_t> rows;
  const int64_t count = batch_->size();
  const int axis = build().batch_axis;
  for (int64_t row = 0; row < count; ++row) {
    const auto finite = [&](const Tensor& x, int along) {
      if (!x.defined() || !is_floating(x.dtype())) return true;
      return is_finite_row(slice(x, along, row, row + 1).to_vector());
    };
    if (finite(batch_->inputs, axis) && finite(batch_->targets, 0)) continue;
    rows.push_back(batch_->indices[static_cast<size_t>(row)]);
  }
  return rows;
}

Recording KeptStep::run(Device device, DType precision) const {
  Model model = build();
  const ParameterList parameters = model.net->parameters();
  const auto arena = std::make_shared<ParameterArena>(
      parameters, device, std::nullopt,
      ArenaTypes{.compute = precision, .wide_gradients = config_.train.accumulate > 1});
  if (unfrozen_) arena->unfreeze();
  for (const auto& parameter : parameters) {
    const SafetensorsTensor* const one =
        file_.find(fmt::format("{}{}", parameter_prefix, parameter->name()));
    const auto count = static_cast<size_t>(parameter->shape().count());
    if (!one || one->dtype != DType::f32 || one->bytes.size() != count * sizeof(float)) {
      fail(ErrorKind::checkpoint, "{}: {}: expected f32 of shape {}", file_.name(),
           excerpt(parameter->name()), parameter->shape());
    }
    std::vector<float> values(count);
    std::memcpy(values.data(), one->bytes.data(), one->bytes.size());
    arena->write(*parameter, values);
  }
  const Objective objective(model, info_.signature, config_.loss, class_counts_, device);
  const Network network(std::move(model), arena, info_.signature);
  Batch batch = *batch_;
  for (const auto& [name, member] : batch_tensors) {
    if ((batch.*member).defined()) batch.*member = (batch.*member).to(device);
  }
  CarriedStates states;
  for (const auto& [path, state] : states_) {
    if (state.h.defined()) states[path].h = state.h.to(device);
    if (state.c.defined()) states[path].c = state.c.to(device);
  }
  Pass pass{.training = true,
            .seed = static_cast<uint64_t>(config_.seed) + (static_cast<uint64_t>(step_.rank) << 32),
            .step = static_cast<uint64_t>(step_.batch)};
  if (info_.signature.task() == Task::language_model) pass.states = &states;

  StepRecorder recorder({.values = true});
  for (const auto& parameter : arena->parameters()) {
    if (!parameter->is_buffer()) recorder.name(parameter->value(), parameter->name());
  }
  for (const auto& [name, member] : batch_tensors) {
    if (!(batch.*member).defined()) continue;
    recorder.name(batch.*member, std::string(name.substr(std::string_view("batch.").size())));
  }
  arena->zero_grad();
  const Tensor loss = objective.loss(network.outputs(batch, pass), batch);
  const Tensor slope = full(loss.shape(), step_.loss_scale, loss.options());
  backward(loss, {.gradient = slope});
  Recording recording = recorder.recording();
  recording.title = fmt::format("{} on {}", precision, device);
  return recording;
}

std::string KeptStep::place_of(const std::string& layer) const {
  const std::string place = place_of_layer(layer);
  const YamlMark& model = config_.model.mark();
  if (place.empty() || !model.source || place.starts_with(*model.source)) return place;
  return fmt::format("{}, of the model at {}", place, model.str());  // a preset's
}

std::string KeptStep::place_of_layer(const std::string& layer) const {
  const std::map<std::string, std::string> places = build().places;
  for (std::string name = layer; !name.empty();) {
    if (const auto found = places.find(name); found != places.end()) return found->second;
    const size_t dot = name.rfind('.');
    name.resize(dot == std::string::npos ? 0 : dot);
  }
  const auto inside = places.lower_bound(layer + ".");
  return inside != places.end() && inside->first.starts_with(layer + ".") ? inside->second : "";
}

}  // namespace whisker
