// The host enqueues events; the device reaches each when its work before it is done.
#include "train/loop/step_trace.h"

#include "core/io/atomic_file.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "train/loop/train_step.h"

#include <algorithm>

namespace whisker {
namespace {

void write_event(JsonWriter& json, const TraceRange& range, double begin_ms, double end_ms,
                 int track) {
  json.begin_object().field("name", range.name).field("cat", range.kind).field("ph", "X");
  json.field("ts", 1e3 * begin_ms).field("dur", 1e3 * std::max(0.0, end_ms - begin_ms));
  json.field("pid", 1).field("tid", track).end_object();
}

void write_track(JsonWriter& json, int track, const std::string& name) {
  json.begin_object().field("name", "thread_name").field("ph", "M").field("pid", 1);
  json.field("tid", track).key("args").begin_object().field("name", name);
  json.end_object().end_object();
}

}  // namespace

StepTrace::StepTrace(Device device)
    : device_(device), clock_(backend_of(device).make_clock()), start_(Clock::now()) {}

void StepTrace::begin(std::string name, const char* kind) {
  if (noted_.empty()) {  // what was asked of the device before is not this trace's
    backend_of(device_).synchronize();
    start_ = Clock::now();
  }
  open_.push_back(noted_.size());
  noted_.push_back({.range = {.name = std::move(name),
                              .kind = kind,
                              .depth = static_cast<int>(open_.size()) - 1,
                              .begin_ms = now_ms()}});
  if (clock_) noted_.back().begin_mark = clock_->mark();
}

void StepTrace::end() {
  Noted& noted = noted_[open_.back()];
  open_.pop_back();
  if (clock_) noted.end_mark = clock_->mark();
  noted.range.end_ms = now_ms();
}

void StepTrace::on_scope_begin(std::string_view layer) {
  layers_.emplace_back(layer);
  begin(layer.empty() ? std::string("network") : std::string(layer), "forward");
}

void StepTrace::on_scope_end() {
  layers_.pop_back();
  end();
}

void StepTrace::on_record(const Node& node, Tensors, Tensors) {
  layer_of_[node.sequence()] = layers_.empty() ? std::string() : layers_.back();
}

void StepTrace::on_backward_begin(const Node& node) {
  if (node.is_leaf()) return;
  const auto found = layer_of_.find(node.sequence());
  const bool known = found != layer_of_.end() && !found->second.empty();
  begin(known ? found->second : std::string(node.name()), "backward");
}

void StepTrace::on_backward_end(const Node& node) {
  if (!node.is_leaf()) end();
}

std::vector<TraceRange> StepTrace::ranges() const {
  std::vector<double> marks;
  if (clock_ && !noted_.empty()) marks = clock_->read();
  std::vector<TraceRange> ranges;
  for (const Noted& noted : noted_) {
    TraceRange range = noted.range;
    range.device_begin_ms =
        clock_ ? marks[static_cast<size_t>(noted.begin_mark)] : noted.range.begin_ms;
    range.device_end_ms = clock_ ? marks[static_cast<size_t>(noted.end_mark)] : noted.range.end_ms;
    ranges.push_back(std::move(range));
  }
  return ranges;
}

// A container's own time is what its children leave.
std::vector<LayerTimes> StepTrace::layers() const {
  const std::vector<TraceRange> all = ranges();
  std::vector<double> own(all.size());
  std::vector<size_t> around;
  for (size_t i = 0; i < all.size(); ++i) {
    own[i] += all[i].device_ms();
    around.resize(static_cast<size_t>(all[i].depth));
    if (!around.empty()) own[around.back()] -= all[i].device_ms();
    around.push_back(i);
  }
  std::vector<LayerTimes> layers;
  std::unordered_map<std::string, size_t> index;
  std::unordered_map<std::string, bool> recorded;
  for (const auto& [sequence, layer] : layer_of_) recorded[layer] = true;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string_view kind = all[i].kind;
    if (!recorded.contains(all[i].name) || (kind != "forward" && kind != "backward")) continue;
    const auto [found, is_new] = index.try_emplace(all[i].name, layers.size());
    if (is_new) layers.push_back({.layer = all[i].name});
    LayerTimes& times = layers[found->second];
    (kind == "forward" ? times.forward_ms : times.backward_ms) += own[i];
  }
  return layers;
}

std::string StepTrace::json() const {
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ms").key("traceEvents").begin_array();
  write_track(json, 1, "host");
  if (clock_) write_track(json, 2, device_.str());
  for (const TraceRange& range : ranges()) {
    write_event(json, range, range.begin_ms, range.end_ms, 1);
    if (clock_) write_event(json, range, range.device_begin_ms, range.device_end_ms, 2);
  }
  return json.end_array().end_object().str();
}

void StepProfile::before_batch(int64_t left) {
  if (batches_ == 0 || trace_ || traced_ > 0) return;
  if (seen_ < step_.warm_up_batches() && left > batches_) return;
  trace_ = std::make_unique<StepTrace>(device_);
  step_.set_trace(trace_.get());
}

bool StepProfile::after_batch() {
  ++seen_;
  return trace_ && ++traced_ == batches_;
}

void StepProfile::stop() {
  step_.set_trace(nullptr);
  trace_.reset();
}

std::string StepProfile::write(const std::filesystem::path& file) {
  const std::string trace = trace_->json();
  stop();
  write_file_atomically(file, trace);
  return fmt::format("{} traced: {} (open it in ui.perfetto.dev)", counted(traced_, "step"),
                     file.string());
}

}  // namespace whisker
