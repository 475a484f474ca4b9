// Operators that run inside a backward pass are part of that node's time and get no entry of their
// own. Values are copied where they are seen: no tensor is held that the step would overwrite.
#include "core/trace/step_recorder.h"

#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/io/text.h"
#include "core/trace/example_recorder.h"
#include "core/trace/relu_decisions.h"
#include "core/trace/rule_table.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

// Tensors without a node are known by the memory they cover, as long as they live.
std::string memory_key(const Tensor& x) {
  return fmt::format("{}+{} {}", static_cast<const void*>(x.storage().get()), x.offset(),
                     x.shape());
}

// What has arrived at an output so far, which the engine may not have added yet: see Note [Unsummed
// gradients].
RecordedValues recorded_gradient(const Node::Output& output, int64_t most) {
  if (!output.unsummed.defined()) return RecordedValues::of(output.gradient, most);
  const Tensor sum = empty(output.shape, {.dtype = output.dtype, .device = output.device});
  Backend& backend = backend_of(output.device);
  backend.copy(output.gradient.raw(), sum.raw(), sum.bytes());
  backend.elementwise().accumulate(output.unsummed, sum);
  return RecordedValues::of(sum, most);
}

bool is_relu(const TapeEntry& entry) {
  const std::string_view fused = fused_activation(entry);
  return entry.name == "relu" || entry.name == "relu6" || fused == "relu" || fused == "relu6";
}

}  // namespace

StepRecorder::StepRecorder(const Options& options)
    : options_(options),
      examples_(options.values ? std::make_unique<ExampleRecorder>(options.large_above) : nullptr),
      previous_(std::exchange(grad_mode.observer, this)),
      previous_attributes_(std::exchange(op_attributes, &attributes_)),
      mark_(Clock::now()),
      clock_(backend_of(options.device).make_clock()) {
  begin_lap();
}

StepRecorder::~StepRecorder() {
  grad_mode.observer = previous_;
  op_attributes = previous_attributes_;
}

void StepRecorder::name(const Tensor& tensor, const std::string& text) {
  if (tensor.requires_grad()) {
    leaf_names_[tensor.node()->sequence()] = printable(text);
  } else {
    constant_names_[memory_key(tensor)] = printable(text);
    alive_.push_back(tensor);
  }
  begin_lap();
}

void StepRecorder::begin_lap() {
  if (clock_) device_mark_ = clock_->mark();
  mark_ = Clock::now();
}

double StepRecorder::Lap::ms(const std::vector<double>& marks) const {
  return end < 0 ? 0 : marks[static_cast<size_t>(end)] - marks[static_cast<size_t>(begin)];
}

double StepRecorder::lap_ms(Lap& lap) {
  if (clock_) lap = {.begin = device_mark_, .end = clock_->mark()};
  return std::chrono::duration<double, std::milli>(Clock::now() - mark_).count();
}

void StepRecorder::on_save(const Tensor& tensor) {
  if (backward_depth_ == 0) pending_.push_back(tensor);
}

void StepRecorder::on_scope_begin(std::string_view layer) {
  layers_.push_back({std::string(layer), entries_.size()});
  if (backward_depth_ == 0) begin_lap();
}

void StepRecorder::on_scope_end() {
  layers_.pop_back();
  if (backward_depth_ == 0) begin_lap();
}

TapeOutput StepRecorder::output_of(const Tensor& tensor) const {
  TapeOutput output{.shape = tensor.shape(), .dtype = tensor.dtype()};
  if (options_.values) output.value = RecordedValues::of(tensor, options_.large_above);
  return output;
}

TapeInput StepRecorder::input_of(const Tensor& operand) {
  TapeEntry entry{.kind = TapeKind::constant, .name = "constant"};
  if (operand.requires_grad()) {
    const Node& node = *operand.node();
    const auto [found, is_new] = by_node_.try_emplace(node.sequence(), entries_.size());
    if (!is_new) return {.entry = found->second, .output = operand.output_index()};
    const auto name = leaf_names_.find(node.sequence());
    entry.kind = TapeKind::leaf;
    entry.name = name == leaf_names_.end() ? node.name() : name->second;
  } else {
    const std::string key = memory_key(operand);
    const auto [found, is_new] = by_memory_.try_emplace(key, TapeInput{.entry = entries_.size()});
    if (!is_new) return found->second;
    const auto name = constant_names_.find(key);
    if (name != constant_names_.end()) entry.name = name->second;
    alive_.push_back(operand);
  }
  entry.outputs.push_back(output_of(operand));
  entries_.push_back(std::move(entry));
  return {.entry = entries_.size() - 1};
}

TapeEntry& StepRecorder::add_operator(const char* name, Tensors inputs, Tensors outputs) {
  Lap lap;
  TapeEntry entry{.name = name,
                  .layer = layers_.empty() ? std::string() : layers_.back().name,
                  .attributes = std::exchange(attributes_, {}),
                  .forward_ms = lap_ms(lap)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->defined()) continue;
    entry.inputs.push_back(input_of(*inputs[i]));
    entry.inputs.back().position = i;
  }
  if (options_.relus && is_relu(entry)) options_.relus->see(entry, *outputs[0]);
  for (const Tensor* output : outputs) entry.outputs.push_back(output_of(*output));
  if (options_.zero_units && is_relu(entry)) entry.outputs[0].zero_units = zero_units(*outputs[0]);
  entries_.push_back(std::move(entry));
  forward_laps_.resize(entries_.size());
  forward_laps_.back() = lap;
  return entries_.back();
}

void StepRecorder::on_record(const Node& node, Tensors inputs, Tensors outputs) {
  if (backward_depth_ > 0) {  // the next operator of a block that runs again, or of a closure
    while (again_ < again_end_ && !entries_[again_].on_tape()) ++again_;
    if (again_ < again_end_) by_node_[node.sequence()] = again_++;
    return;
  }
  if (node.name() == recompute_name) {
    add_recomputed(node, inputs, outputs);
  } else {
    const std::vector<Tensor> kept = pending_;
    describe_saved(add_operator(node.name(), inputs, outputs), inputs, outputs);
    add_example(inputs, outputs, kept);
  }
  by_node_[node.sequence()] = entries_.size() - 1;
  begin_lap();
}

// Its operators are the layer's so far; they kept nothing after all. It is shown behind them.
void StepRecorder::add_recomputed(const Node& node, Tensors inputs, Tensors outputs) {
  const size_t first = layers_.back().first;
  TapeInput result;
  int operators = 0;
  for (size_t i = first; i < entries_.size(); ++i) {
    TapeEntry& entry = entries_[i];
    if (!entry.on_tape()) continue;
    ++operators;
    result.entry = i;
    if (entry.recomputed()) continue;
    entry.attributes += entry.attributes.empty() ? "recomputed" : ", recomputed";
  }
  std::erase_if(kept_storages_, [&](const auto& kept) { return kept.second >= first; });
  pending_.resize(std::min<size_t>(pending_.size(), 1));  // parameters are kept anyway
  attributes_ = fmt::format("operators {}", operators);
  TapeEntry& entry = add_operator(node.name(), inputs.first(1), outputs);
  describe_saved(entry, inputs.first(1), outputs);
  entry.inputs = {result};
}

void StepRecorder::on_unrecorded(const char* name, Tensors inputs, Tensors outputs) {
  if (backward_depth_ > 0) return;
  pending_.clear();
  add_operator(name, inputs, outputs).recorded = false;
  add_example(inputs, outputs, {});
  for (size_t i = 0; i < outputs.size(); ++i) {
    by_memory_[memory_key(*outputs[i])] = {.entry = entries_.size() - 1, .output = i};
    alive_.push_back(*outputs[i]);
  }
  begin_lap();
}

void StepRecorder::add_example(Tensors inputs, Tensors outputs, std::span<const Tensor> kept) {
  if (examples_) examples_->on_forward(entries_, entries_.size() - 1, inputs, outputs, kept);
}

void StepRecorder::describe_saved(TapeEntry& entry, Tensors inputs, Tensors outputs) {
  for (const Tensor& tensor : pending_) {
    const Storage* storage = tensor.storage().get();
    TapeSaved saved{.what = "workspace", .shape = tensor.shape(), .dtype = tensor.dtype()};
    bool parameter = false;
    for (const TapeInput& input : entry.inputs) {
      if (inputs[input.position]->storage().get() != storage) continue;
      const TapeEntry& source = entries_[input.entry];
      parameter = source.kind == TapeKind::leaf;
      saved.what = source.kind == TapeKind::op ? "input" : source.name;
      break;
    }
    for (const Tensor* output : outputs) {
      if (output->storage().get() == storage && saved.what == "workspace") saved.what = "output";
    }
    if (saved.what == "workspace") {
      // No gradient passes it, but it may have a name.
      const auto name = constant_names_.find(memory_key(tensor));
      if (name != constant_names_.end()) saved.what = name->second;
      const int64_t most = std::max(options_.large_above, most_recorded_values);
      if (options_.values && tensor.count() <= most) {
        saved.value = RecordedValues::of(tensor, most);
      }
    }
    if (kept_storages_.try_emplace(storage, entries_.size() - 1).second && !parameter) {
      saved.bytes = tensor.bytes();
    }
    entry.saved.push_back(std::move(saved));
  }
  pending_.clear();
}

void StepRecorder::on_backward_begin(const Node& node) {
  if (backward_depth_++ > 0) return;
  const auto found = by_node_.find(node.sequence());
  if (found != by_node_.end() && node.name() == recompute_name) {
    again_end_ = found->second;
    again_ = first_recomputed(entries_, again_end_);
  }
  if (options_.values && found != by_node_.end()) {
    TapeEntry& entry = entries_[found->second];
    for (size_t i = 0; i < entry.outputs.size() && i < node.outputs().size(); ++i) {
      const Node::Output& output = node.outputs()[i];
      if (output.gradient.defined())
        entry.outputs[i].gradient = recorded_gradient(output, options_.large_above);
    }
    examples_->on_backward_begin(entry, found->second, node);
    had_gradient_.clear();
    for (const Edge& edge : node.inputs()) {
      had_gradient_.push_back(edge.node && edge.node->outputs()[edge.output].gradient.defined());
    }
  }
  begin_lap();
}

void StepRecorder::on_backward_end(const Node& node) {
  Lap lap;
  const double elapsed_ms = backward_depth_ == 1 ? lap_ms(lap) : 0;
  if (--backward_depth_ > 0) return;
  attributes_.clear();
  again_ = again_end_ = 0;
  const auto found = by_node_.find(node.sequence());
  if (found == by_node_.end()) return;  // recorded before this recorder began
  TapeEntry& entry = entries_[found->second];
  entry.backward_step = ++backward_steps_;
  entry.backward_ms = elapsed_ms;
  backward_laps_.resize(entries_.size());
  backward_laps_[found->second] = lap;
  if (!options_.values || node.name() == recompute_name) return;
  examples_->on_backward_end(entry, found->second, node, had_gradient_);
  const std::span<const Edge> edges = node.inputs();
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const TapeInput& input = entry.inputs[i];
    if (input.position >= edges.size() || !edges[input.position].node) continue;
    const Edge& edge = edges[input.position];
    const Node::Output& target = edge.node->outputs()[edge.output];
    const bool again = std::any_of(entry.given.begin(), entry.given.end(), [&](const auto& other) {
      return entry.inputs[other.input].entry == input.entry &&
             entry.inputs[other.input].output == input.output;
    });
    const int64_t count = target.shape.count();
    if (again || !target.gradient.defined() || count == 0 || count > options_.large_above) continue;
    entry.given.push_back({.input = i,
                           .first = !had_gradient_[input.position],
                           .sum = recorded_gradient(target, options_.large_above)});
  }
}

Recording StepRecorder::recording() const {
  std::vector<bool> wanted(entries_.size(), false);
  bool any = false;
  for (size_t i = entries_.size(); i-- > 0;) {  // inputs stand before what uses them
    const TapeEntry& entry = entries_[i];
    if (entry.kind == TapeKind::op && entry.recorded) wanted[i] = any = true;
    if (!wanted[i]) continue;
    for (const TapeInput& input : entry.inputs) wanted[input.entry] = true;
  }
  std::vector<double> marks;
  if (clock_) marks = clock_->read();
  const auto device_ms = [&](const std::vector<Lap>& laps, size_t i, double host_ms) {
    return !clock_ ? host_ms : i < laps.size() ? laps[i].ms(marks) : 0;
  };
  Recording result;
  std::vector<size_t> place(entries_.size());
  int operators = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const double forward_ms = device_ms(forward_laps_, i, entries_[i].forward_ms);
    if (any && !wanted[i]) {
      result.beside += entries_[i].kind == TapeKind::op;
      result.beside_ms += forward_ms;
      continue;
    }
    place[i] = result.entries.size();
    result.entries.push_back(entries_[i]);
    TapeEntry& entry = result.entries.back();
    entry.forward_ms = forward_ms;
    entry.backward_ms = device_ms(backward_laps_, i, entry.backward_ms);
    for (TapeInput& input : entry.inputs) input.entry = place[input.entry];
    if (entry.kind == TapeKind::op) entry.number = ++operators;
  }
  return result;
}

}  // namespace whisker
