#include "apps/study/memory_recorder.h"

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "optim/optimizer.h"

#include <algorithm>

namespace whisker {

std::string block_of_layer(const std::string& layer) {
  return std::string(block_of(layer + "."));
}

MemoryRecorder::MemoryRecorder(Device device)
    : backend_(backend_of(device)), previous_(std::exchange(grad_mode.observer, this)) {
  backend_.reset_peak();
}

MemoryRecorder::~MemoryRecorder() {
  grad_mode.observer = previous_;
}

void MemoryRecorder::name(const Tensor& tensor, const std::string&) {
  counted_.insert(tensor.storage().get());
}

MemorySample& MemoryRecorder::sample(const std::string& name, bool backward) {
  const MemoryStats stats = backend_.memory_stats();
  backend_.reset_peak();
  samples_.push_back({.name = name,
                      .layer = layers_.empty() ? std::string() : layers_.back(),
                      .backward = backward,
                      .kept = kept_,
                      .peak = stats.peak,
                      .peak_tensors = stats.peak_tensors,
                      .after = stats});
  return samples_.back();
}

void MemoryRecorder::on_save(const Tensor& tensor) {
  if (backward_depth_ == 0) pending_.push_back(tensor);
}

void MemoryRecorder::note_results(Tensors outputs, const std::string& layer) {
  for (const Tensor* output : outputs) {
    made_in_[output->storage().get()] = block_of_layer(layer);
  }
}

void MemoryRecorder::on_record(const Node& node, Tensors inputs, Tensors outputs) {
  if (backward_depth_ > 0) return;
  MemorySample& own = sample(node.name());
  const std::string block = block_of_layer(own.layer);
  Kept& kept = by_node_[node.sequence()];
  kept.layer = own.layer;
  for (const Tensor& tensor : pending_) {
    const Storage* const storage = tensor.storage().get();
    // Parameters and their gradients are slices of an arena.
    if (!storage->owned() || !counted_.insert(storage).second) continue;
    kept.storages.push_back(storage);
    kept.bytes += storage->bytes();
    const bool from_outside = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
      const auto maker = made_in_.find(storage);
      return input->defined() && input->storage().get() == storage &&
             (maker == made_in_.end() || maker->second != block);
    });
    if (!from_outside) own.recomputable += storage->bytes();
  }
  pending_.clear();
  own.keeps = kept.bytes;
  own.kept = kept_ += kept.bytes;
  note_results(outputs, own.layer);
}

void MemoryRecorder::on_unrecorded(const char* name, Tensors /*inputs*/, Tensors outputs) {
  if (backward_depth_ > 0) return;
  pending_.clear();
  note_results(outputs, sample(name).layer);
}

void MemoryRecorder::on_backward_end(const Node& node) {
  if (--backward_depth_ > 0) return;
  const auto found = by_node_.find(node.sequence());
  if (found != by_node_.end()) {
    kept_ -= found->second.bytes;
    for (const Storage* storage : found->second.storages) counted_.erase(storage);
  }
  const bool again = node.is_leaf() && !samples_.empty() && samples_.back().name == accumulates;
  const int64_t before = again ? samples_.back().peak : 0,
                before_tensors = again ? samples_.back().peak_tensors : 0;
  if (again) samples_.pop_back();
  MemorySample& own = sample(std::string(node.is_leaf() ? accumulates : node.name()), true);
  own.peak = std::max(own.peak, before);
  own.peak_tensors = std::max(own.peak_tensors, before_tensors);
  if (found != by_node_.end()) own.layer = found->second.layer;
}

}  // namespace whisker
