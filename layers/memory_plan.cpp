// Sums over a planned pass.
#include "layers/memory_plan.h"

#include "core/backend/attention.h"
#include "core/backend/backend.h"
#include "core/backend/fused_ops.h"
#include "core/backend/recurrent.h"
#include "core/nvidia/cuda_usable.h"
#include "layers/batch_norm.h"

#include <algorithm>
#include <utility>

namespace whisker {

namespace {

int64_t scores_of(const AttentionGeometry& g) {
  return g.batch * g.heads * g.tokens * g.tokens;
}
int64_t results_of(const AttentionGeometry& g) {
  return g.batch * g.tokens * g.width();
}

}  // namespace

MemoryPlan MemoryPlan::of(const Module& model, const Shape& x, std::optional<Device> device,
                          DType dtype, bool recompute) {
  MemoryPlan plan;
  plan.device_ = device;
  plan.dtype_ = dtype;
  plan.recompute_ = recompute;
  model.add_to(plan, plan.add_input(x));
  return plan;
}

int MemoryPlan::add_input(const Shape& shape) {
  const int value = static_cast<int>(values_.size());
  values_.push_back({.shape = shape, .needs_grad = false, .memory = value});
  return value;
}

int MemoryPlan::add(const Module& layer, std::vector<int> inputs, const Shape& output,
                    const OperatorCost& cost, std::string what) {
  const int value = static_cast<int>(values_.size());
  bool needs = false;
  for (const int input : inputs) needs |= needs_grad(input);
  for (const auto& parameter : layer.own_parameters()) needs |= parameter->trainable();
  const int memory = cost.view ? values_[static_cast<size_t>(inputs.front())].memory : value;
  values_.push_back({.shape = output, .needs_grad = needs, .memory = memory});
  if (what.empty()) what = layer.description();
  operators_.push_back({&layer, std::move(what), std::move(inputs), value, cost});
  return value;
}

void MemoryPlan::add_recomputed(size_t first) {
  if (first == operators_.size()) return;
  std::erase_if(recomputed_, [&](const Block& inner) { return inner.first >= first; });
  recomputed_.push_back({.first = first, .end = operators_.size()});
}

const MemoryPlan::Block* MemoryPlan::block_of(size_t op) const {
  const auto found = std::ranges::find_if(
      recomputed_, [&](const Block& block) { return block.first <= op && op < block.end; });
  return found == recomputed_.end() ? nullptr : &*found;
}

// Starts a GPU, which is of use only for what asks its kernels.
bool MemoryPlan::device_is_here() const {
  if (!is_here_) is_here_ = !is_for(DeviceKind::cuda) || why_no_cuda(*device_).empty();
  return *is_here_;
}

bool MemoryPlan::has_attention() const {
  return std::ranges::any_of(operators_,
                             [](const auto& op) { return op.cost.attention.has_value(); });
}

// Only those of 16 bits without dropout are fused on any GPU.
bool MemoryPlan::runs_unfused(const PlannedOperator& op) const {
  if (!op.cost.attention || !device_) return false;
  AttentionGeometry g = *op.cost.attention;
  g.dtype = dtype_;
  if (device_is_here()) return !attention_is_fused(*device_, g);
  return size_of(g.dtype) != 2 || g.dropout > 0;
}

bool MemoryPlan::assumes_fused_attention() const {
  return has_attention() && !device_is_here() &&
         std::ranges::any_of(operators_, [&](const PlannedOperator& op) {
           return op.cost.attention && !runs_unfused(op);
         });
}

// Unfused attention keeps q, k and v in an order of their own, q scaled besides, and in place of
// the logarithms of sums the probabilities, where dropout follows before and after it.
int64_t MemoryPlan::kept_besides(const PlannedOperator& op, int64_t width) const {
  const OperatorCost& cost = op.cost;
  int64_t elements = cost.kept_elements, bytes = cost.kept_bytes;
  if (bytes > 0 && runs_unfused(op)) {
    const AttentionGeometry& g = *cost.attention;
    elements += results_of(g) + scores_of(g) * (g.dropout > 0 ? 2 : 1);
    bytes = 0;
  }
  return elements * width + bytes + (width == element_bytes ? cost.kept_in_f32 : 0);
}

void MemoryPlan::add_notes(const std::vector<std::string>& notes) {
  notes_.insert(notes_.end(), notes.begin(), notes.end());
}

int64_t MemoryPlan::multiply_adds() const {
  int64_t total = 0;
  for (const PlannedOperator& op : operators_) total += op.cost.multiply_adds;
  return total;
}

// The last operator that reads each value's memory in a forward pass.
std::vector<size_t> MemoryPlan::last_uses() const {
  std::vector<size_t> last(values_.size());
  for (size_t i = 0; i < operators_.size(); ++i) {
    for (const int input : operators_[i].inputs) last[memory_of(input)] = i;
    last[memory_of(operators_[i].output)] = i;
  }
  return last;
}

// The first operator that keeps each value for its backward pass, which is the last to let go of
// it; -1 when none does. By operators outside of recomputed blocks, of which each keeps its input;
// or by those inside, of values that are made there.
std::vector<int> MemoryPlan::first_keepers(bool in_blocks) const {
  std::vector<int> keepers(values_.size(), -1);
  for (size_t i = operators_.size(); i-- > 0;) {
    const PlannedOperator& op = operators_[i];
    const Block* const block = block_of(i);
    const auto keep = [&](int value) {
      const size_t memory = memory_of(value);
      if (!in_blocks || memory >= first_made(*block)) keepers[memory] = static_cast<int>(i);
    };
    if (in_blocks == (block != nullptr)) {
      if (op.cost.keeps_input) keep(op.inputs.front());
      if (op.cost.keeps_second_input) keep(op.inputs[1]);
      if (op.cost.keeps_output) keep(op.output);
    } else if (block && block->first == i) {
      keep(op.inputs.front());
    }
  }
  return keepers;
}

int64_t MemoryPlan::kept_bytes(int64_t width) const {
  const std::vector<int> keepers = first_keepers(false);
  int64_t total = 0;
  for (size_t i = 0; i < operators_.size(); ++i) {
    if (!block_of(i)) total += kept_besides(operators_[i], width);
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    if (keepers[i] >= 0) total += elements(i) * width;
  }
  return total;
}

// Kernels of the CPU are asked here; those of a GPU may be elsewhere, and choose by timing. Unfused
// attention has two more tensors of scores, forwards qkv itself and its result in another order,
// backwards the gradients of both.
KernelWorkspace MemoryPlan::workspace(size_t i, int64_t width) const {
  const PlannedOperator& op = operators_[i];
  int64_t own = op.cost.transient_bytes / element_bytes * width;
  if (runs_unfused(op)) {
    own += (2 * scores_of(*op.cost.attention) + 4 * results_of(*op.cost.attention)) * width;
  }
  if (!is_for(DeviceKind::cpu)) return {.forward = own, .backward = own};
  const bool dx = needs_grad(op.inputs.front());
  bool dw = false;
  for (const auto& parameter : op.layer->own_parameters()) dw = dw || parameter->trainable();
  Backend& backend = backend_of(cpu_device);
  if (op.cost.recurrent) {
    RecurrentGeometry g = *op.cost.recurrent;
    g.lengths = lengths_;
    g.dtype = dtype_;
    const bool every_step = shape(op.output).rank() == 3;
    KernelWorkspace kernels = backend.recurrent().training_workspace(g, every_step, dx, dw);
    // Last states of the upper layer alone are read; their gradient is one of all layers'.
    if (!every_step) kernels.backward += (g.cells() - g.directions) * g.batch * g.output() * width;
    return kernels;
  }
  KernelWorkspace kernels;
  if (op.cost.convolution) {
    Conv2dGeometry g = *op.cost.convolution;
    g.dtype = dtype_;
    kernels = backend.convolution().conv2d_workspace(g, dx, dw);
  }
  return {.forward = own + kernels.forward, .backward = own + kernels.backward};
}

int64_t MemoryPlan::inference_bytes(int64_t width, bool scratch) const {
  const std::vector<size_t> last_use = last_uses();
  int64_t alive = values_.empty() ? 0 : elements(0);
  int64_t peak = alive * width;
  for (size_t i = 0; i < operators_.size(); ++i) {
    const size_t made = memory_of(operators_[i].output);
    if (made == static_cast<size_t>(operators_[i].output)) alive += elements(made);
    peak = std::max(peak, alive * width + (scratch ? workspace(i, width).forward : 0));
    for (size_t value = 0; value < values_.size(); ++value) {
      const bool owns = memory_of(static_cast<int>(value)) == value;
      if (owns && last_use[value] == i) alive -= elements(value);
    }
  }
  return peak;
}

// Gradients live as on the tape, from the first operator that contributes to one until the operator
// that made the value has run backward; a second contribution waits beside it to be added. A
// recomputed block lets go of all but its input and its result, and runs again before its backward.
int64_t MemoryPlan::training_bytes(int64_t width, bool scratch) const {
  if (operators_.empty()) return 0;
  const std::vector<size_t> last_use = last_uses();
  const std::vector<int> keeper = first_keepers(false), inside = first_keepers(true);
  const size_t result = memory_of(operators_.back().output);
  int64_t alive = elements(0) * width;  // the batch stays to the end
  int64_t peak = alive;
  // A GPU's batch norm adds both parts of its gradient itself: see UnsummedGrads.
  std::vector<bool> adds_late(values_.size());
  for (const PlannedOperator& op : operators_) {
    const bool norm = dynamic_cast<const BatchNorm*>(op.layer) != nullptr;
    adds_late[memory_of(op.output)] = norm && device_ && has_fused_kernels(device_->kind);
  }
  std::vector<KernelWorkspace> works(operators_.size());
  for (size_t i = 0; scratch && i < works.size(); ++i) works[i] = workspace(i, width);
  const auto kept_in = [&](size_t value, const Block* block) {
    return block && inside[value] >= static_cast<int>(block->first) &&
           inside[value] < static_cast<int>(block->end);
  };
  const auto forward = [&](size_t i, bool again) {
    const Block* const block = block_of(i);
    const size_t made = memory_of(operators_[i].output);
    if (made == static_cast<size_t>(operators_[i].output)) alive += elements(made) * width;
    alive += kept_besides(operators_[i], width);
    peak = std::max(peak, alive + works[i].forward);
    for (size_t value = again ? first_made(*block) : 1; value < values_.size(); ++value) {
      const bool owns = memory_of(static_cast<int>(value)) == value;
      if (owns && value != result && last_use[value] == i && (again || keeper[value] < 0) &&
          !kept_in(value, block)) {
        alive -= elements(value) * width;
      }
    }
  };
  for (size_t i = 0; i < operators_.size(); ++i) {
    forward(i, false);
    const Block* const block = block_of(i);
    if (!block || i + 1 != block->end) continue;
    for (size_t j = block->first; j < block->end; ++j) alive -= kept_besides(operators_[j], width);
    for (size_t value = 1; value < values_.size(); ++value) {
      if (kept_in(value, block) && value != memory_of(operators_[i].output)) {
        alive -= elements(value) * width;
      }
    }
  }
  std::vector<int64_t> gradients(values_.size());
  gradients[result] = 1;
  alive += elements(result) * width;
  for (size_t i = operators_.size(); i-- > 0;) {
    const PlannedOperator& op = operators_[i];
    const size_t made = memory_of(op.output);
    if (const Block* const block = block_of(i); block && i + 1 == block->end) {
      for (size_t j = block->first; j < block->end; ++j) forward(j, true);
      if (!kept_in(made, block)) alive -= elements(made) * width;
    }
    int64_t waiting = 0;
    for (const int input : op.inputs) {
      const size_t value = memory_of(input);
      if (!needs_grad(input) || op.cost.view) continue;
      const bool stays = gradients[value] == 0 || (gradients[value] == 1 && adds_late[value]);
      (stays ? alive : waiting) += elements(value) * width;
      if (stays) ++gradients[value];
    }
    if (op.cost.view || needs_grad(op.output)) {
      peak = std::max(peak, alive + waiting + works[i].backward);
    }
    if (!op.cost.view) alive -= std::exchange(gradients[made], 0) * elements(made) * width;
    alive -= kept_besides(op, width);
    for (size_t value = 1; value < values_.size(); ++value) {
      const bool freed =
          keeper[value] == static_cast<int>(i) || inside[value] == static_cast<int>(i);
      if (freed && value != result) alive -= elements(value) * width;
    }
  }
  return peak;
}

}  // namespace whisker
