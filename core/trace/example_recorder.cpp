// An operator's rule reads a few elements of its tensors. Forward runs the terms of gradients once
// without what arrives, so that these elements are known and kept; backward adds what arrives
// there. Fused operators, which are run again, keep a part that stands alone: a head of attention,
// a channel of norms, a small recurrent layer as it is.
#include "core/trace/example_recorder.h"

#include "core/io/text.h"
#include "core/trace/local_example.h"
#include "core/trace/local_rule.h"
#include "core/trace/operator_parts.h"
#include "core/trace/rule_table.h"
#include "core/trace/tensor_sample.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace whisker {
namespace {

constexpr const char* other_numbers = "its formula does not give what was computed";

// Some elements all over a tensor, the largest first.
std::vector<int64_t> candidates(const TapeOutput& tensor) {
  const int64_t count = tensor.shape.count(), most = std::min<int64_t>(count, 64);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < most; ++i) all.push_back((2 * i + 1) * count / (2 * most));
  std::ranges::stable_sort(all, std::greater(), [&](int64_t i) {
    const double size = std::abs(tensor.value.at(i));
    return std::isnan(size) ? -1 : size;
  });
  return all;
}

}  // namespace

struct ExampleRecorder::Pending {
  Recording of;                             // the operands, then the operator alone
  std::vector<SharedTensorSample> live;     // what reads tensors
  std::vector<SharedTensorSample> arrives;  // at each result; null where it is recorded as it is
  std::vector<OperatorPart> parts,
      results;  // of a fused operator: of operands as in inputs, of results
  struct Gradient {
    size_t input;
    int64_t element;
  };
  std::vector<Gradient> gradients;

  TapeEntry& entry() { return of.entries.back(); }
  RecordedValues reading(const Tensor& x, const RecordedValues& recorded, bool is_large) {
    if (!is_large) return recorded;
    live.push_back(std::make_shared<TensorSample>());
    live.back()->live.emplace(x);
    return {.read = [sample = live.back()](int64_t i) { return sample->at(i); }};
  }
  // Keeps all elements of a part.
  void take(TapeOutput& output, const OperatorPart& part, const Tensor& x) {
    HostElements elements(x);
    for (const int64_t i : part.elements) output.value.all.push_back(elements.at(i));
    output.shape = part.shape;
  }
  void forget() {
    for (const SharedTensorSample& one : live) one->live.reset();
    live.clear();
  }
};

namespace {

// One example of a part: its largest element, named as in the whole tensor.
std::string example_of(const std::vector<double>& recorded, const OperatorPart& part,
                       const Shape& whole, const std::string& name, DType dtype, bool is_alone,
                       const auto& terms) {
  for (const int64_t i : by_size(recorded)) {
    const TermSum sum = terms(i);
    if (sum.terms == 0) continue;
    const auto at = static_cast<size_t>(i);
    if (is_alone ? !sum.agrees(recorded[at], dtype) : std::isnan(sum.value)) break;
    return sum.str(name + index_in(whole, part.elements[at]), is_alone ? recorded[at] : sum.value);
  }
  return no_example(name, other_numbers);
}

}  // namespace

ExampleRecorder::ExampleRecorder(int64_t large_above) : large_above_(large_above) {}
ExampleRecorder::~ExampleRecorder() = default;

void ExampleRecorder::on_forward(std::vector<TapeEntry>& entries, size_t index,
                                 std::span<const Tensor* const> inputs,
                                 std::span<const Tensor* const> outputs,
                                 std::span<const Tensor> kept) {
  TapeEntry& entry = entries[index];
  if (entry.name == "excite") keep_factors(entry, *inputs[1]);
  const auto is_large = [&](const Tensor& x) { return x.count() > large_above_; };
  bool large = std::ranges::any_of(outputs, [&](const Tensor* x) { return is_large(*x); });
  for (const TapeInput& input : entry.inputs) large = large || is_large(*inputs[input.position]);
  const OpRule* const rule = find_rule(entry.name);
  if (!large || !rule || outputs[0]->count() == 0) return;
  auto pending = std::make_unique<Pending>();
  TapeEntry alone{.name = entry.name, .attributes = entry.attributes, .recorded = entry.recorded};
  const bool fused = is_fused(entry.name);
  OperatorParts parts;
  if (fused) parts = parts_of(entry, inputs, outputs);
  if (!parts.why_not.empty()) {
    entry.example = no_example("y and of gradients", parts.why_not);
    return;
  }
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const TapeInput& input = entry.inputs[i];
    const Tensor& x = *inputs[input.position];
    TapeOutput operand{.shape = x.shape(), .dtype = x.dtype()};
    if (fused) {
      pending->take(operand, parts.operands[i], x);
    } else {
      operand.value =
          pending->reading(x, entries[input.entry].outputs[input.output].value, is_large(x));
    }
    pending->of.entries.push_back(
        {.kind = TapeKind::leaf, .name = "operand", .outputs = {operand}});
    alone.inputs.push_back({.entry = i, .position = input.position});
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    TapeOutput output{.shape = outputs[k]->shape(), .dtype = outputs[k]->dtype()};
    if (fused) {
      pending->take(output, parts.results[k], *outputs[k]);
    } else {
      output.value = pending->reading(*outputs[k], entry.outputs[k].value, is_large(*outputs[k]));
    }
    SharedTensorSample arrives;
    if (!fused && is_large(*outputs[k])) {
      arrives = std::make_shared<TensorSample>();
      output.gradient.read = [arrives](int64_t i) { return arrives->at(i); };
    }
    pending->arrives.push_back(std::move(arrives));
    alone.outputs.push_back(std::move(output));
  }
  for (size_t i = 0; i < entry.saved.size(); ++i) {
    alone.saved.push_back(entry.saved[i]);
    TapeSaved& saved = alone.saved.back();
    if (entry.name == "attention" && saved.shape.rank() == 4) {  // the mask, of the first head
      saved.shape = saved.shape.with(0, 1).with(1, 1);
      HostElements mask(kept[i]);
      saved.value = {};
      for (int64_t k = 0; k < saved.shape.count(); ++k) saved.value.all.push_back(mask.at(k));
    }
    if (fused || entry.saved[i].what != "workspace" || !is_large(kept[i])) continue;
    alone.saved[i].value = pending->reading(kept[i], {}, true);
  }
  pending->of.entries.push_back(std::move(alone));
  pending->parts = std::move(parts.operands);
  pending->results = std::move(parts.results);
  const auto wants = [&](const TapeInput& input) {
    const TapeEntry& source = entries[input.entry];
    return entry.recorded && source.kind != TapeKind::constant && source.recorded;
  };
  if (fused) {  // run again once, with what arrives
    if (entry.name == "attention") {
      std::string& attributes = pending->entry().attributes;
      const size_t begin = attributes.find("heads ") + 6;
      attributes.replace(begin, attributes.find_first_not_of("0123456789", begin) - begin, "1");
    }
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      if (wants(entry.inputs[i])) pending->gradients.push_back({i, 0});
    }
    pending->forget();
    pending_[index] = std::move(pending);
    return;
  }
  const LocalExamples examples(pending->of, pending->entry());
  const TapeEntry& copy = pending->entry();
  const auto too_large = [](const std::string& name) {
    return no_example(name,
                      fmt::format("a sum of more than {} terms; a smaller --batch-size has fewer",
                                  grouped(static_cast<int64_t>(most_example_terms))));
  };
  const int64_t normalized = examples.normalized_with(0);
  if (normalized > static_cast<int64_t>(most_example_terms)) {
    entry.example =
        no_example("y and of gradients", too_many("mean and variance are those of", normalized));
    return;
  }
  int64_t shown = -1;
  for (const int64_t element : candidates(copy.outputs[0])) {
    const TermSum sum = examples.forward(element);
    if (sum.terms == 0) continue;
    shown = element;
    const double recorded = copy.outputs[0].value.at(element);
    entry.example = sum.is_full() ? too_large("y")
                    : sum.agrees(recorded, copy.dtype())
                        ? sum.str("y" + index_in(copy.shape(), element), recorded)
                        : no_example("y", other_numbers);
    break;
  }
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    if (!wants(entry.inputs[i])) continue;
    const size_t position = entry.inputs[i].position;
    const std::string name = "d" + operand_name(entry, position);
    int64_t element = -1;
    if (shown >= 0) {  // of a term of the same element
      for_each_link_of(pending->of, copy, 0, shown, [&](const OpLink& link) {
        if (element < 0) element = link.operand(position);
      });
    }
    std::vector<int64_t> tried = candidates(*operand_at(pending->of, copy, position));
    if (element >= 0) tried.insert(tried.begin(), element);
    for (const int64_t one : tried) {
      const TermSum sum = examples.backward(position, one);
      if (sum.terms == 0) continue;
      if (sum.is_full()) {
        entry.inputs[i].example = too_large(name);
      } else {
        pending->gradients.push_back({i, one});
      }
      break;
    }
  }
  pending->forget();
  if (!pending->gradients.empty()) pending_[index] = std::move(pending);
}

// The norm before it multiplies its gradient by these, of which the norm's part is kept with it.
void ExampleRecorder::keep_factors(const TapeEntry& excite, const Tensor& factors) {
  const auto found = pending_.find(excite.inputs[0].entry);
  if (found == pending_.end() || found->second->entry().name != "batch_norm_squeeze") return;
  Pending& norm = *found->second;
  TapeOutput part{.shape = factors.shape(), .dtype = factors.dtype()};
  norm.take(part, norm.results[1], factors);
  TapeEntry own = std::move(norm.entry());
  norm.of.entries.back() = {.kind = TapeKind::leaf, .name = "factors", .outputs = {part}};
  const size_t at = norm.of.entries.size();
  norm.of.entries.push_back({.name = "excite",
                             .inputs = {{.entry = at + 1}, {.entry = at - 1, .position = 1}},
                             .outputs = {part}});
  norm.of.entries.push_back(std::move(own));
}

void ExampleRecorder::on_backward_begin(const TapeEntry& entry, size_t index, const Node& node) {
  const auto found = pending_.find(index);
  if (found == pending_.end()) return;
  Pending& pending = *found->second;
  for (size_t k = 0; k < pending.arrives.size() && k < node.outputs().size(); ++k) {
    const Node::Output& output = node.outputs()[k];
    TapeOutput& own = pending.entry().outputs[k];
    if (!output.gradient.defined()) {
      own.gradient = {};
    } else if (!pending.results.empty()) {
      own.gradient.all = arrived_at(output, pending.results[k].elements);
    } else if (const SharedTensorSample& arrives = pending.arrives[k]) {
      const std::vector<double> values = arrived_at(output, arrives->missing);
      for (size_t i = 0; i < values.size(); ++i) {
        arrives->values.emplace(arrives->missing[i]).first = values[i];
      }
    } else {
      own.gradient = entry.outputs[k].gradient;
    }
  }
}

void ExampleRecorder::on_backward_end(TapeEntry& entry, size_t index, const Node& node,
                                      const std::vector<bool>& had_gradient) {
  const auto found = pending_.find(index);
  if (found == pending_.end()) return;
  const std::unique_ptr<Pending> pending = std::move(found->second);
  pending_.erase(found);
  const bool fused = !pending->results.empty();
  const LocalExamples examples(pending->of, pending->entry());
  const TapeEntry& copy = pending->entry();
  if (fused && !examples.is_unfused()) {
    entry.example =
        no_example("y and of gradients",
                   "run again, the operators inside give other numbers, as dropout does");
    return;
  }
  if (fused) {
    entry.example = example_of(copy.outputs[0].value.all, pending->results[0], entry.shape(), "y",
                               copy.dtype(), true, [&](int64_t i) { return examples.forward(i); });
  }
  for (const Pending::Gradient& one : pending->gradients) {
    TapeInput& input = entry.inputs[one.input];
    const Edge& edge = node.inputs()[input.position];
    if (!edge.node || !edge.node->outputs()[edge.output].gradient.defined()) continue;
    const Node::Output& target = edge.node->outputs()[edge.output];
    const auto uses = std::ranges::count_if(entry.inputs, [&](const TapeInput& other) {
      return other.entry == input.entry && other.output == input.output;
    });
    // An operator that is not fused has one element, its part.
    const OperatorPart part = fused ? pending->parts[one.input] : OperatorPart{{1}, {one.element}};
    const std::vector<double> given = arrived_at(target, part.elements);
    input.example =
        example_of(given, part, target.shape, "d" + operand_name(entry, input.position),
                   target.dtype, uses == 1 && !had_gradient[input.position], [&](int64_t i) {
                     return examples.backward(input.position,
                                              fused ? i : part.elements[static_cast<size_t>(i)]);
                   });
  }
}

}  // namespace whisker
