// Each fused operator once, as a function of its operands. Attributes may come from a file: what
// the operators refuse is not taken apart.
#include "core/trace/unfused_operator.h"

#include "core/autograd/autograd.h"
#include "core/autograd/observer.h"
#include "core/ops/recurrent_cells.h"
#include "core/trace/op_links.h"
#include "core/trace/rule_table.h"
#include "core/trace/step_recorder.h"
#include "core/trace/term_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace whisker {
namespace {

constexpr TensorOptions plain{.dtype = DType::f64, .device = reference_device};

// A fused operator's operands by position, and its attributes.
class FusedCall {
 public:
  FusedCall(const Recording& recording, const TapeEntry& entry)
      : recording_(recording), entry_(entry) {
    for (const TapeInput& input : entry.inputs) {
      operands.resize(std::max(operands.size(), input.position + 1));
      const TapeOutput& tensor = recording.entries[input.entry].outputs[input.output];
      operands[input.position] = tensor_of(tensor.value, tensor.shape).set_requires_grad();
    }
  }

  std::vector<Tensor> results() const {
    if (entry_.name == "recurrent") return recurrent_results();
    if (entry_.name == "attention") {
      return {attention(at(0), kept(4), {.heads = whole(number("heads"))})};
    }
    const Shape& y = entry_.outputs[0].shape;
    if (entry_.name == "batch_norm_conv2d") {
      const auto g =
          conv2d_geometry(at(0).shape(), at(3).shape(), false, convolution(), DType::f64);
      if (!(y == Shape{g.n, g.h_out, g.w_out, g.c_out})) return {};
      return {conv2d(norm(0, "epsilon", activation()), at(3), {}, convolution())};
    }
    if (entry_.name == "batch_norm_max_pool2d") return pooled(norm(0, "epsilon", activation()));
    if (entry_.name == "batch_norm_squeeze") {
      const Tensor z = norm(0, "epsilon", activation());
      return {z, mean(z, {1, 2}, {.keep_axes = true})};
    }
    const Tensor sum = norm(0, "epsilon", {}) + norm(3, "added_epsilon", {});
    return {entry_.has_attribute("relu") ? relu(sum) : sum};
  }

  // The gradient of the result, as it arrived; 0 where nothing did.
  Tensor arrived(size_t result) const {
    const TapeOutput& output = entry_.outputs[result];
    if (output.gradient.all.empty()) return zeros(output.shape, plain);
    const Tensor dy = tensor_of(output.gradient, output.shape);
    if (entry_.name != "batch_norm_squeeze" || result > 0) return dy;
    for (const TapeEntry& other : recording_.entries) {  // excite left its factors to this
      if (other.name != "excite" || other.inputs.size() != 2) continue;
      if (&recording_.entries[other.inputs[0].entry] != &entry_) continue;
      const TapeInput& factors = other.inputs[1];
      const TapeOutput& tensor = recording_.entries[factors.entry].outputs[factors.output];
      const Tensor scaled = mul(dy, tensor_of(tensor.value, tensor.shape));
      return from_vector(scaled.to_vector(), output.shape, plain);  // a constant, as the others
    }
    return dy;
  }

  std::vector<Tensor> operands;  // undefined: absent

 private:
  static Tensor tensor_of(const RecordedValues& values, const Shape& shape) {
    return from_vector(values.all, shape, plain);
  }
  Tensor at(size_t position) const {
    return position < operands.size() ? operands[position] : Tensor();
  }
  double number(std::string_view name) const {
    const std::vector<double> numbers = entry_.attribute(name);
    return numbers.empty() ? 0 : numbers[0];
  }
  // 0, which operators refuse, where it is no small number.
  static int64_t whole(double value) {
    return value >= 0 && value <= most_recorded_values ? static_cast<int64_t>(value) : 0;
  }
  static Pair pair(const TapeEntry& entry, std::string_view name) {
    std::vector<double> numbers = entry.attribute(name);
    numbers.resize(2);
    return {whole(numbers[0]), whole(numbers[1])};
  }
  // What forward kept beside operands, of so many axes.
  Tensor kept(int axes) const {
    for (const TapeSaved& saved : entry_.saved) {
      const bool whole = std::ssize(saved.value.all) == saved.shape.count();
      if (saved.shape.rank() == axes && whole) return tensor_of(saved.value, saved.shape);
    }
    return {};
  }

  ActivationSpec activation() const {
    ActivationSpec f{.slope = static_cast<float>(std::clamp(number("slope"), -1e6, 1e6))};
    for (int i = 0; i < activation_count; ++i) {
      const auto kind = static_cast<Activation>(i);
      if (name_of(kind) == inner_activation(entry_)) f.kind = kind;
    }
    return f;
  }
  Tensor norm(size_t first, std::string_view epsilon, const ActivationSpec& f) const {
    return batch_norm(at(first), at(first + 1), at(first + 2), {},
                      {.training = true, .epsilon = number(epsilon), .activation = f});
  }
  // Windows may hang over the end.
  std::vector<Tensor> pooled(const Tensor& z) const {
    Pool2dOptions options{.kernel = pair(entry_, "kernel"),
                          .stride = pair(entry_, "stride"),
                          .padding = pair(entry_, "padding")};
    for (const bool ceil : {false, true}) {
      options.ceil = ceil;
      const auto g = pool2d_geometry(PoolKind::max, z.shape(), options, DType::f64);
      if (entry_.outputs[0].shape == Shape{g.n, g.h_out, g.w_out, g.c}) {
        return {max_pool2d(z, options)};
      }
    }
    return {};
  }
  Conv2dOptions convolution() const {
    return {.stride = pair(entry_, "stride"),
            .padding = pair(entry_, "padding"),
            .dilation = pair(entry_, "dilation"),
            .groups = pair(entry_, "groups").h};
  }

  std::vector<Tensor> recurrent_results() const {
    constexpr size_t first = 3, per_cell = 5;
    std::vector<RecurrentParameters> cells;
    for (size_t i = first; i < operands.size(); i += per_cell) {
      cells.push_back({at(i), at(i + 1), at(i + 2), at(i + 3), at(i + 4)});
    }
    RecurrentOptions options{.bidirectional = entry_.has_attribute("bidirectional"),
                             .initial = {.h = at(1), .c = at(2)}};
    for (const RecurrentKind kind :
         {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::gru}) {
      if (entry_.has_attribute(name_of(kind))) options.kind = kind;
    }
    if (const Tensor lengths = kept(1)) {
      std::vector<double> steps = lengths.to_vector();
      for (double& one : steps) one = static_cast<double>(whole(one));
      options.lengths = cast(from_vector(steps, lengths.shape(), plain), DType::i64);
    }
    const RecurrentResult result = recurrent_by_cells(at(0), cells, options);
    std::vector<Tensor> results = {result.y, result.last.h};
    if (result.last.c) results.push_back(result.last.c);
    return results;
  }

  const Recording& recording_;
  const TapeEntry& entry_;
};

// Records, even where a backward pass runs, which records nothing itself.
struct OperatorsRecorded {
  bool previous = std::exchange(grad_mode.enabled, true);
  ~OperatorsRecorded() { grad_mode.enabled = previous; }
};

// Whether the values are the recorded ones but for the rounding of the recorded type.
bool agrees(const Tensor& result, const TapeOutput& recorded) {
  if (!(result.shape() == recorded.shape)) return false;
  const std::vector<double> values = result.to_vector();
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    const double apart = std::abs(values[i] - recorded.value.all[i]);
    if (!(apart <= relative_tolerance(recorded.dtype) * largest + 1e-30)) return false;
  }
  return true;
}

}  // namespace

bool is_fused(std::string_view name) {
  constexpr std::string_view names[] = {"attention",         "recurrent",
                                        "add_batch_norms",   "batch_norm_max_pool2d",
                                        "batch_norm_conv2d", "batch_norm_squeeze"};
  return std::ranges::find(names, name) != std::end(names);
}

const RecordedValues* UnfusedOperator::arrives_at(size_t entry) const {
  const auto found = std::ranges::find(seeds, entry);
  if (found == seeds.end()) return nullptr;
  return &operand_at(inside, inside.entries[entry], 1)->value;
}

std::optional<UnfusedOperator> unfused_operator(const Recording& recording,
                                                const TapeEntry& entry) {
  if (!is_fused(entry.name)) return std::nullopt;
  const auto is_known = [](const TapeOutput& tensor) {
    return std::ssize(tensor.value.all) == tensor.shape.count() && !tensor.value.all.empty();
  };
  bool known = std::ranges::all_of(entry.outputs, is_known);
  for (const TapeInput& input : entry.inputs) {
    known = known && is_known(recording.entries[input.entry].outputs[input.output]);
  }
  if (!known) return std::nullopt;
  UnfusedOperator unfused;
  try {
    const FusedCall call(recording, entry);
    const OperatorsRecorded recorded;
    StepRecorder recorder({.values = true, .large_above = std::numeric_limits<int64_t>::max()});
    for (size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i]) recorder.name(call.operands[i], fmt::format("operand {}", i));
    }
    const std::vector<Tensor> results = call.results();
    if (results.size() != entry.outputs.size()) return std::nullopt;
    Tensor root;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!agrees(results[i], entry.outputs[i])) return std::nullopt;
      const Tensor dy = call.arrived(i);
      recorder.name(dy, fmt::format("arrives {}", i));
      const Tensor part = sum(mul(results[i], dy));
      root = root ? add(root, part) : part;
    }
    backward(root);
    unfused.inside = recorder.recording();
    unfused.operands.resize(call.operands.size());
  } catch (const Error&) {
    return std::nullopt;
  }
  unfused.results.resize(entry.outputs.size());
  unfused.seeds.resize(entry.outputs.size());
  const std::vector<TapeEntry>& entries = unfused.inside.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t k = 0; k < unfused.operands.size(); ++k) {
      if (entries[i].name == fmt::format("operand {}", k)) unfused.operands[k] = i;
    }
    for (size_t k = 0; k < unfused.results.size(); ++k) {
      if (entries[i].name != "mul" || entries[i].inputs.size() != 2) continue;
      if (entries[entries[i].inputs[1].entry].name != fmt::format("arrives {}", k)) continue;
      unfused.results[k] = entries[i].inputs[0];
      unfused.seeds[k] = i;
    }
  }
  return unfused;
}

}  // namespace whisker
