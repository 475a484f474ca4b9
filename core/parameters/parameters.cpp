// The arena: sizes first, then one allocation per flat tensor, then a view per parameter.
#include "core/parameters/parameters.h"

#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/backend/training_step.h"
#include "core/tensor/philox.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr int64_t slice_alignment_bytes = 256;

Tensor part(const Tensor& flat, int64_t begin, int64_t count) {
  return Tensor(flat.storage(), flat.offset() + begin, {count}, flat.dtype());
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

// Whether layers read a copy in the compute dtype: see Note [Compute views].
bool reads_copy(const Parameter& parameter, const ArenaTypes& types) {
  return types.compute && !parameter.is_buffer() && parameter.role() != ParameterRole::norm;
}

int64_t padded_slice(int64_t elements, const ArenaTypes& types) {
  size_t width = size_of(types.master);
  if (types.compute) width = std::min(width, size_of(*types.compute));
  const int64_t step = slice_alignment_bytes / static_cast<int64_t>(width);
  return (elements + step - 1) / step * step;
}

}  // namespace

void Parameter::set_trainable(bool trainable) {
  if (value_.defined()) {
    fail(ErrorKind::usage, "{}: freeze before the parameters are allocated", name_);
  }
  trainable_ = trainable;
}

void Parameter::set_frozen_at_first() {
  set_trainable(trainable_);
  frozen_at_first_ = true;
}

void Parameter::set_group(int group) {
  if (value_.defined() || group < 0 || group > 255) {
    fail(ErrorKind::usage, "{}: group {} must be set in [0, 255] before allocation", name_, group);
  }
  group_ = group;
}

Tensor ParameterRun::of(const Tensor& flat) const {
  return part(flat, offset, value.count());
}

ParameterArena::ParameterArena(ParameterList parameters, Device device,
                               std::optional<uint64_t> seed, ArenaTypes types)
    : parameters_(std::move(parameters)),
      device_(device),
      types_(types),
      epoch_(std::make_shared<std::atomic<uint64_t>>(0)) {
  if (types_.compute == types_.master) types_.compute.reset();
  lay_out(trainable_, true);
  lay_out(frozen_, false);
  lay_out_buffers();
  make_runs();
  for (const auto& parameter : parameters_) {
    materialise(*parameter);
    if (!seed || !parameter->initializer_) continue;  // flat() gave zeros
    std::vector<float> initial(static_cast<size_t>(parameter->shape().count()));
    parameter->initializer_(*seed, stream_of(parameter->name()), initial);
    write(*parameter, initial);
  }
}

ArenaBytes ParameterArena::bytes_of(const ParameterList& parameters, ArenaTypes types) {
  if (types.compute == types.master) types.compute.reset();
  const auto master = static_cast<int64_t>(size_of(types.master));
  const auto compute = static_cast<int64_t>(size_of(types.compute.value_or(types.master)));
  ArenaBytes bytes;
  for (const auto& parameter : parameters) {
    const int64_t count = padded_slice(parameter->shape().count(), types);
    const bool viewed = reads_copy(*parameter, types);
    if (parameter->is_buffer()) {
      bytes.values += 2 * count * master;
      continue;
    }
    bytes.values += count * (master + (viewed ? compute : 0));
    if (!parameter->trainable()) continue;
    bytes.trainable += count * master;
    bytes.gradients += count * (viewed && !types.wide_gradients ? compute : master);
  }
  return bytes;
}

bool ParameterArena::has_view(const Parameter& parameter) const {
  return reads_copy(parameter, types_);
}

int64_t ParameterArena::padded(int64_t elements) const {
  return padded_slice(elements, types_);
}

// Those with a compute view first, so that views and masters have the same offsets.
void ParameterArena::lay_out(Home& home, bool trainable) {
  for (const bool viewed : {true, false}) {
    for (const auto& parameter : parameters_) {
      const Parameter& p = *parameter;
      if (p.is_buffer() || p.trainable() != trainable || has_view(p) != viewed) continue;
      parameter->offset_ = home.count;
      home.count += padded(p.shape().count());
    }
    if (viewed) home.viewed = home.count;
  }
  home.values = flat(home.count, types_.master, MemoryCategory::parameters);
  home.compute = flat(home.viewed, compute_dtype(), MemoryCategory::parameters);
}

void ParameterArena::lay_out_buffers() {
  int64_t count = 0;
  for (const auto& parameter : parameters_) {
    if (!parameter->is_buffer()) continue;
    parameter->offset_ = count;
    count += padded(parameter->shape().count());
  }
  buffers_ = flat(count, types_.master, MemoryCategory::parameters);
  pending_ = flat(count, types_.master, MemoryCategory::parameters);
}

void ParameterArena::make_runs() {
  const int64_t block = slice_alignment_bytes / static_cast<int64_t>(size_of(types_.master));
  const Tensor groups = group_table();
  const auto add = [&](int64_t begin, int64_t end, const Tensor& compute, DType gradient) {
    if (begin == end) return;
    runs_.push_back({.offset = begin,
                     .value = part(trainable_.values, begin, end - begin),
                     .compute = compute,
                     .gradient = flat(end - begin, gradient, MemoryCategory::gradients),
                     .block_group = part(groups, begin / block, (end - begin) / block)});
  };
  add(0, trainable_.viewed, trainable_.compute,
      types_.wide_gradients ? types_.master : compute_dtype());
  add(trainable_.viewed, trainable_.count, {}, types_.master);
}

// u8, the optimizer group of each 256-byte block of the trainable masters.
Tensor ParameterArena::group_table() const {
  const int64_t block = slice_alignment_bytes / static_cast<int64_t>(size_of(types_.master));
  std::vector<uint8_t> groups(static_cast<size_t>(trainable_.count / block));
  for (const auto& parameter : parameters_) {
    if (!parameter->trainable()) continue;
    std::fill_n(groups.begin() + parameter->offset_ / block,
                padded(parameter->shape().count()) / block,
                static_cast<uint8_t>(parameter->group()));
  }
  Tensor table =
      empty({static_cast<int64_t>(groups.size())}, {.dtype = DType::u8, .device = device_});
  if (!groups.empty()) backend_of(device_).upload(groups.data(), table.raw(), table.bytes());
  return table;
}

void ParameterArena::materialise(Parameter& p) {
  if (p.is_buffer()) {
    p.master_ = p.value_ = slice(buffers_, p);
    p.pending_ = slice(pending_, p);
    return;
  }
  const Home& home = p.trainable() ? trainable_ : frozen_;
  p.master_ = slice(home.values, p);
  p.value_ = has_view(p) ? slice(home.compute, p) : p.master_.detach();
  if (!p.trainable()) return;
  const ParameterRun& run = has_view(p) ? runs_.front() : runs_.back();
  p.gradient_ = slice(run.gradient, p, run.offset);
  p.leaf_ = make_ref<Leaf>(p.value_, p.gradient_, p.name_);
  p.waits_ = p.frozen_at_first_;
  if (!p.waits_) p.value_.attach(Ref<Node>(p.leaf_.get()), 0);
}

void ParameterArena::unfreeze() {
  for (const auto& parameter : parameters_) {
    if (!parameter->waits_) continue;
    parameter->waits_ = false;
    parameter->value_.attach(Ref<Node>(parameter->leaf_.get()), 0);
  }
}

Tensor ParameterArena::flat(int64_t elements, DType dtype, MemoryCategory category) const {
  const MemoryScope scope(category);
  return zeros({elements}, {.dtype = dtype, .device = device_});
}

Tensor ParameterArena::make_like(MemoryCategory category) const {
  return flat(count(), types_.master, category);
}

// Each slice is a storage of its own, with its own version on top of the arena's epoch, and keeps
// the flat memory alive.
Tensor ParameterArena::slice(const Tensor& flat, const Parameter& parameter,
                             int64_t flat_begin) const {
  struct Keeper {
    Tensor flat;
    std::shared_ptr<std::atomic<uint64_t>> epoch;
  };
  const auto width = static_cast<int64_t>(size_of(flat.dtype()));
  auto keeper = std::make_shared<const Keeper>(Keeper{flat, epoch_});
  void* start = static_cast<char*>(flat.raw()) + (parameter.offset_ - flat_begin) * width;
  return Tensor(make_ref<Storage>(flat.device(), parameter.shape().count() * width, start,
                                  std::move(keeper), epoch_.get()),
                0, parameter.shape(), flat.dtype());
}

std::vector<float> ParameterArena::read(const Parameter& parameter) const {
  return download(parameter.master_);
}

std::vector<float> ParameterArena::read(const Tensor& flat, const Parameter& parameter) const {
  return download(slice(flat, parameter));
}

void ParameterArena::write(const Parameter& parameter, std::span<const float> values) {
  upload(parameter.master_, parameter, values);
  if (parameter.is_buffer()) upload(parameter.pending_, parameter, values);
  if (!has_view(parameter)) return;
  backend_of(device_).elementwise().cast(parameter.master_, parameter.value_);
  parameter.value_.storage()->bump_version();
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

void ParameterArena::commit_buffers(const int32_t* condition) {
  if (buffers_.count() == 0) return;
  Backend& backend = backend_of(device_);
  if (condition) {
    backend.training_step().copy_if(condition, pending_.raw(), buffers_.raw(), buffers_.bytes());
  } else {
    backend.copy(pending_.raw(), buffers_.raw(), buffers_.bytes());
  }
  bump_epoch();
}

void ParameterArena::refresh() {
  if (trainable_.viewed > 0) {
    backend_of(device_).elementwise().cast(part(trainable_.values, 0, trainable_.viewed),
                                           trainable_.compute);
  }
  bump_epoch();
}

}  // namespace whisker
