// The arena: sizes first, then one allocation per flat tensor, then a view per parameter.
#include "core/parameters.h"

#include "core/backend.h"
#include "core/philox.h"

namespace whisker {
namespace {

constexpr int64_t slice_alignment_bytes = 256;

int64_t padded(int64_t elements, DType dtype) {
  const int64_t step = slice_alignment_bytes / static_cast<int64_t>(size_of(dtype));
  return (elements + step - 1) / step * step;
}

std::vector<float> download(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector();
  return {values.begin(), values.end()};
}

void upload(const Tensor& tensor, const Parameter& parameter, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != tensor.count()) {
    fail(ErrorKind::usage, "{}: expected {} values for shape {}, got {}", parameter.name(),
         tensor.count(), parameter.shape(), values.size());
  }
  if (values.empty()) return;
  if (tensor.dtype() == DType::f32) {
    backend_of(tensor.device()).upload(values.data(), tensor.raw(), tensor.bytes());
  } else {
    const std::vector<double> wide(values.begin(), values.end());
    backend_of(tensor.device()).upload(wide.data(), tensor.raw(), tensor.bytes());
  }
  tensor.storage()->bump_version();
}

}  // namespace

void Parameter::set_trainable(bool trainable) {
  if (value_.defined()) {
    fail(ErrorKind::usage, "{}: freeze before the parameters are allocated", name_);
  }
  trainable_ = trainable;
}

void Parameter::set_group(int group) {
  if (value_.defined() || group < 0 || group > 255) {
    fail(ErrorKind::usage, "{}: group {} must be set in [0, 255] before allocation", name_, group);
  }
  group_ = group;
}

ParameterArena::ParameterArena(ParameterList parameters, Device device,
                               std::optional<uint64_t> seed, DType dtype)
    : parameters_(std::move(parameters)), epoch_(std::make_shared<std::atomic<uint64_t>>(0)) {
  int64_t trainable = 0, buffers = 0, frozen = 0;
  for (const auto& parameter : parameters_) {
    int64_t& total = parameter->is_buffer() ? buffers : parameter->trainable() ? trainable : frozen;
    parameter->offset_ = total;
    total += padded(parameter->shape().count(), dtype);
  }
  values_ = flat(trainable, dtype, MemoryCategory::parameters, device);
  gradients_ = flat(trainable, dtype, MemoryCategory::gradients, device);
  buffers_ = flat(buffers, dtype, MemoryCategory::parameters, device);
  pending_ = flat(buffers, dtype, MemoryCategory::parameters, device);
  frozen_ = flat(frozen, dtype, MemoryCategory::parameters, device);

  const int64_t block = slice_alignment_bytes / static_cast<int64_t>(size_of(dtype));
  std::vector<uint8_t> groups(static_cast<size_t>(trainable / block));
  for (const auto& parameter : parameters_) {
    Parameter& p = *parameter;
    const Tensor& home = p.is_buffer() ? buffers_ : p.trainable() ? values_ : frozen_;
    p.value_ = slice(home, p);
    if (p.is_buffer()) p.pending_ = slice(pending_, p);
    if (p.trainable()) {
      p.gradient_ = slice(gradients_, p);
      p.leaf_ = make_ref<Leaf>(p.value_, p.gradient_);
      p.value_.attach(Ref<Node>(p.leaf_.get()), 0);
      const int64_t end = p.offset_ + padded(p.shape().count(), dtype);
      for (int64_t b = p.offset_ / block; b < end / block; ++b) {
        groups[static_cast<size_t>(b)] = static_cast<uint8_t>(p.group());
      }
    }
    if (!seed || !p.initializer_) continue;  // flat() gave zeros
    std::vector<float> initial(static_cast<size_t>(p.shape().count()));
    p.initializer_(*seed, stream_of(p.name()), initial);
    write(p, initial);
  }
  block_group_ =
      empty({static_cast<int64_t>(groups.size())}, {.dtype = DType::u8, .device = device});
  if (!groups.empty()) {
    backend_of(device).upload(groups.data(), block_group_.raw(), block_group_.bytes());
  }
}

Tensor ParameterArena::flat(int64_t elements, DType dtype, MemoryCategory category,
                            Device device) const {
  const MemoryScope scope(category);
  return zeros({elements}, {.dtype = dtype, .device = device});
}

Tensor ParameterArena::make_like(MemoryCategory category) const {
  return flat(count(), values_.dtype(), category, device());
}

// Each slice is a storage of its own, with its own version on top of the arena's epoch, and keeps
// the flat memory alive.
Tensor ParameterArena::slice(const Tensor& flat, const Parameter& parameter) const {
  struct Keeper {
    Tensor flat;
    std::shared_ptr<std::atomic<uint64_t>> epoch;
  };
  const auto width = static_cast<int64_t>(size_of(flat.dtype()));
  auto keeper = std::make_shared<const Keeper>(Keeper{flat, epoch_});
  void* start = static_cast<char*>(flat.raw()) + parameter.offset_ * width;
  return Tensor(make_ref<Storage>(flat.device(), parameter.shape().count() * width, start,
                                  std::move(keeper), epoch_.get()),
                0, parameter.shape(), flat.dtype());
}

std::vector<float> ParameterArena::read(const Parameter& parameter) const {
  return download(parameter.value_);
}

std::vector<float> ParameterArena::read(const Tensor& flat, const Parameter& parameter) const {
  return download(slice(flat, parameter));
}

void ParameterArena::write(const Parameter& parameter, std::span<const float> values) {
  upload(parameter.value_, parameter, values);
  if (parameter.is_buffer()) upload(parameter.pending_, parameter, values);
}

void ParameterArena::write(const Tensor& flat, const Parameter& parameter,
                           std::span<const float> values) {
  upload(slice(flat, parameter), parameter, values);
}

void ParameterArena::zero_grad() {
  for (const auto& parameter : parameters_) {
    if (parameter->leaf_) parameter->leaf_->clear();
  }
}

void ParameterArena::complete_gradients() {
  for (const auto& parameter : parameters_) {
    if (parameter->leaf_ && !parameter->leaf_->gradient().defined()) parameter->gradient_.fill_(0);
  }
}

void ParameterArena::commit_buffers() {
  if (buffers_.count() == 0) return;
  backend_of(device()).copy(pending_.raw(), buffers_.raw(), buffers_.bytes());
  bump_epoch();
}

}  // namespace whisker
