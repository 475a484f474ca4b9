// Note [Order of a step]: forward, loss, its check, backward, buffers, the sum over all ranks, the
// norm and its check, optimizer, average. What follows a check does nothing when it failed, so no
// NaN ever reaches a checkpoint.
#include "train/loop/train_step.h"

#include "core/autograd/autograd.h"
#include "core/backend/device_copy.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "core/work_progress.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t most_shapes = 16;  // captured at a time
// A shape stays eager while fewer than one batch in so many has it: an epoch's odd last batch is
// not worth the memory unless epochs are short, nor is a length that hardly ever comes.
constexpr int64_t rarest_captured = 64;
// A captured shape may be dropped when it has not come for so many batches. Even the rarest shape
// that is captured comes far sooner, so that too many shapes do not evict each other, with more
// captures than replays.
constexpr int64_t idle_batches = 16 * rarest_captured;

Tensor empty_on(Device device, const Tensor& like) {
  return like.defined() ? empty(like.shape(), {.dtype = like.dtype(), .device = device}) : Tensor();
}

// A batch that holds make(t) for each tensor t of `like`.
template <class Make>
Batch each_tensor(const Batch& like, Make make) {
  return {.inputs = make(like.inputs),
          .labels = make(like.labels),
          .soft_labels = make(like.soft_labels),
          .targets = make(like.targets),
          .lengths = make(like.lengths),
          .indices = like.indices,
          .first_layer = like.first_layer,
          .continues = like.continues};
}

void enqueue_copy(const Batch& source, Batch& target) {
  for (const auto member :
       {&Batch::inputs, &Batch::labels, &Batch::soft_labels, &Batch::targets, &Batch::lengths}) {
    if ((source.*member).defined()) enqueue_copy(source.*member, target.*member);
  }
  target.indices = source.indices;
  target.continues = source.continues;
}

Tensor on_device(const Tensor& tensor, Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const Tensor moved = empty_on(device, tensor);
  enqueue_copy(tensor, moved);
  return moved;
}

// A GPU's loader leaves images there, but not labels.
Batch on_device(const Batch& batch, Device device) {
  return each_tensor(batch, [&](const Tensor& tensor) { return on_device(tensor, device); });
}

}  // namespace

TrainStep::TrainStep(Experiment& experiment, TrainStepOptions options)
    : experiment_(experiment),
      backend_(backend_of(experiment.device)),
      options_(std::move(options)),
      pass_{.training = true,
            // Dropout differs from rank to rank.
            .seed = static_cast<uint64_t>(experiment.config.seed) +
                    (static_cast<uint64_t>(experiment.ranks->rank()) << 32),
            .random_offset = &experiment.optimizer->memory().state()->inputs.batch},
      gradient_sum_(*experiment.arena, *experiment.ranks,
                    experiment.config.deterministic ? GradientSum::default_bucket_bytes : 0) {
  Communicator& ranks = *experiment.ranks;
  accumulates_ = experiment.config.train.accumulate > 1;
  if (ranks.world() > 1 || accumulates_) {
    const Tensor both = ones({2}, {.device = experiment.device});
    part_weight_ = Tensor(both.storage(), both.offset(), {}, DType::f32);
    batch_weight_ = Tensor(both.storage(), both.offset() + 1, {}, DType::f32);
  }
  if (ranks.world() > 1) {
    norm_ranks_ = {
        .world = ranks.world(),
        .all_gather = [&](const Tensor& own, const Tensor& all) { ranks.all_gather(own, all); },
        .all_reduce = [&](const Tensor& sums) { ranks.all_reduce(sums); }};
    if (experiment.config.train.sync_batch_norm) pass_.norm_ranks = &norm_ranks_;
  }
  const bool gpu = experiment.device.kind == DeviceKind::cuda;
  late_reading_ = options_.late_reading.value_or(gpu);
  captures_ = experiment.config.runtime.graph && (gpu || options_.capture);
  carries_ = experiment.network->signature().task() == Task::language_model;
  if (!options_.capture) {
    options_.capture = [this](const std::function<void()>& work) { return backend_.capture(work); };
  }
}

void TrainStep::begin(const StepTotals& totals) {
  accumulated_ = 0;
  // They are of all ranks, and will be added up again.
  experiment_.optimizer->memory().write_totals(experiment_.ranks->rank() == 0 ? totals
                                                                              : StepTotals());
}

void TrainStep::forget_captures() {
  shapes_.clear();
  experiment_.train->write_into({});
  written_into_ = false;
}

bool TrainStep::run(const Batch& batch, const BatchPlace& place) {
  const Part part{.first = accumulated_ == 0, .update = ends_update(place)};
  ++accumulated_;
  experiment_.optimizer->memory().write_inputs(
      {.batch = place.number, .learning_rate = place.learning_rate});
  if (carries_ && !batch.continues) {
    for (const auto& [path, state] : states_) {
      for (const Tensor& tensor : {state.h, state.c}) {
        if (tensor.defined()) tensor.fill_(0);
      }
    }
  }
  if (part_weight_.defined()) write_weights(batch);
  if (trace_ || place.eager || !replay(batch, part))
    enqueue(on_device(batch, experiment_.device), part);
  if (part.update) accumulated_ = 0;
  if (!std::exchange(stepped_, true)) {
    const int64_t batches = experiment_.config.train.epochs * experiment_.batches_per_epoch();
    search_plans(experiment_.config, experiment_.device,
                 std::max<int64_t>(batches - place.number, 1));
  }
  return part.update;
}

void TrainStep::write_weights(const Batch& batch) {
  const auto rows = static_cast<double>(batch.whole_size());
  norm_ranks_.fraction = static_cast<double>(batch.size()) / rows;
  if (pass_.norm_ranks && batch.whole_size() < norm_ranks_.world) {
    fail(ErrorKind::usage,
         "train.sync_batch_norm: a batch of {} examples has none for some of {} ranks. Use "
         "train.drop_last: true.",
         batch.whole_size(), norm_ranks_.world);
  }
  double whole = 1;
  if (accumulates_) {
    whole = rows / static_cast<double>(experiment_.config.train.batch_size);
    // A language model's rows are its steps, and an epoch's last batch may have fewer.
    if (carries_) {
      whole *= static_cast<double>(batch.labels.extent(0)) /
               static_cast<double>(experiment_.config.data.text.steps);
    }
  }
  const float weights[] = {static_cast<float>(norm_ranks_.fraction * whole),
                           static_cast<float>(whole)};
  backend_.enqueue_upload(weights, part_weight_.raw(), sizeof weights);
}

// To those of the update's earlier batches.
void TrainStep::add_weight(const Tensor& class_weight, Part part) {
  if (!accumulates_) return;
  const Tensor own = class_weight.defined() ? mul(batch_weight_, class_weight) : batch_weight_;
  const Tensor sum = experiment_.optimizer->memory().group_weight();
  sum.copy_(part.first ? own : add(sum, own));
}

void TrainStep::measure(const Batch& batch) {
  norm_ranks_.fraction =
      static_cast<double>(batch.size()) / static_cast<double>(batch.whole_size());
  if (batch.size() == 0) return;
  const NoGrad off_tape;
  Pass pass = pass_;
  pass.random_offset = nullptr;
  experiment_.network->outputs(on_device(batch, experiment_.device), pass);
}

// All of a step that a graph may hold: nothing here reads host memory that changes.
void TrainStep::enqueue(const Batch& batch, Part part) {
  ParameterArena& arena = *experiment_.arena;
  Optimizer& optimizer = *experiment_.optimizer;
  StepState* state = optimizer.memory().state();
  const StepTrace::Watch watch(trace_);
  const StepTrace::Range whole(trace_, "step", "step");
  if (part.first && batch.size() > 0) arena.zero_grad();
  if (part.first && batch.size() == 0) {  // a replayed batch adds to what is there
    for (const ParameterRun& run : arena.runs()) run.gradient.fill_(0);
  }
  CarriedStates states = states_;
  if (part.update) gradient_sum_.begin();
  if (batch.size() > 0) {
    forward_and_backward(batch, states, part);
  } else {
    Tensor class_weight;
    experiment_.objective->join_loss(accumulates_ ? &class_weight : nullptr);
    add_weight(class_weight, part);
  }
  const StepTrace::Range range(trace_, "update", "step");
  // Statistics of every batch count, accumulated or not.
  if (batch.size() > 0) arena.commit_buffers(&state->sound);
  // After a failure the states stay those that the failed batch began with, for who searches it. In
  // f16 the text goes on through skipped updates, but not from a state that is not finite.
  const bool verdict_first = part.update && !optimizer.rule().scales_loss;
  if (carries_ && !verdict_first) keep_states(states, &state->sound);
  if (!part.update) return;
  arena.complete_gradients();
  gradient_sum_.enqueue(optimizer.memory());
  optimizer.enqueue_update();
  if (carries_ && verdict_first) keep_states(states, &state->applies);
  if (experiment_.average) experiment_.average->update(&state->applies);
}

void TrainStep::forward_and_backward(const Batch& batch, CarriedStates& states, Part part) {
  Optimizer& optimizer = *experiment_.optimizer;
  Pass pass = pass_;
  if (carries_) pass.states = &states;
  Tensor loss, class_weight;
  {
    const StepTrace::Range range(trace_, "forward", "step");
    const Tensor outputs = experiment_.network->outputs(batch, pass);
    loss = experiment_.objective->loss(outputs, batch, accumulates_ ? &class_weight : nullptr);
    add_weight(class_weight, part);
    // A language model's rows are its steps.
    backend_.training_step().count_batch(
        outputs.reshape({-1, outputs.extent(-1)}), loss,
        {optimizer.rule(), batch.labels.reshape({-1}), optimizer.memory().state()});
  }
  const StepTrace::Range range(trace_, "backward", "step");
  Tensor slope = optimizer.memory().loss_scale();
  if (part_weight_.defined()) slope = mul(slope, part_weight_);
  if (class_weight.defined()) slope = mul(slope, class_weight);
  BackwardOptions options{.gradient = slope.reshape(loss.shape())};
  if (experiment_.ranks->world() > 1 && part.update) {
    options.on_leaf = [this](const Tensor& gradient) { gradient_sum_.finished(gradient); };
  }
  backward(loss, options);
}

// What the batch left, in the tensors that the next one begins with, unless *condition is 0:
// backward has read them by now.
void TrainStep::keep_states(const CarriedStates& last, const int32_t* condition) {
  for (const auto& [path, state] : last) {
    RecurrentState& own = states_[path];
    for (const auto member : {&RecurrentState::h, &RecurrentState::c}) {
      const Tensor& from = state.*member;
      if (!from.defined()) continue;
      if (!(own.*member).defined()) {
        own.*member = empty_on(experiment_.device, from);
        (own.*member).fill_(0);
      }
      backend_.training_step().copy_if(condition, from.raw(), (own.*member).raw(), from.bytes());
    }
  }
}

// Batches of a shape before it is captured: plans are chosen and memory is cached by then, for the
// update as well.
int64_t TrainStep::batches_before_capture() const {
  return 3 * experiment_.config.train.accumulate;
}

int64_t TrainStep::warm_up_batches() const {
  const bool chooses_at_first_use = experiment_.device.kind != DeviceKind::cuda && !captures_;
  if (chooses_at_first_use) return carries_ ? 2 : 1;  // the first batch begins without states
  return batches_before_capture() + 1;
}

// The entry of the batch's shape, if it is frequent enough to be captured.
TrainStep::Captured* TrainStep::captured_for(const Batch& batch) {
  std::string key =
      fmt::format("{} {} {}", batch.inputs.shape(), batch.inputs.dtype(), batch.first_layer);
  for (const auto member : {&Batch::soft_labels, &Batch::targets, &Batch::lengths}) {
    key += (batch.*member).defined() ? '1' : '0';
  }
  Captured& shape = shapes_[key];
  shape.last_used = ++batches_;
  if (shape.inputs.inputs.defined()) return &shape;
  ++shape.eager_batches;
  if (shape.eager_batches <= batches_before_capture() ||
      shape.eager_batches * rarest_captured < batches_) {
    return nullptr;
  }
  if (!evict_shape()) return nullptr;
  const MemoryScope scope(MemoryCategory::input);
  shape.inputs = each_tensor(
      batch, [&](const Tensor& tensor) { return empty_on(experiment_.device, tensor); });
  if (!written_into_) experiment_.train->write_into(shape.inputs.inputs);
  written_into_ = true;
  return &shape;
}

// Whether one more shape may be captured. At the maximum, drops an idle one.
bool TrainStep::evict_shape() {
  Captured* oldest = nullptr;
  int64_t captured = 0;
  for (auto& [key, shape] : shapes_) {
    if (!shape.inputs.inputs.defined()) continue;
    ++captured;
    if (!oldest || shape.last_used < oldest->last_used) oldest = &shape;
  }
  if (captured < most_shapes) return true;
  if (batches_ - oldest->last_used < idle_batches) return false;
  *oldest = {};
  experiment_.train->write_into({});
  written_into_ = false;
  return true;
}

// False when the batch has to run eagerly.
bool TrainStep::replay(const Batch& batch, Part part) {
  const bool full =
      experiment_.ranks->world() == 1 || batch.whole_size() == experiment_.config.train.batch_size;
  Captured* const shape = captures_ && full ? captured_for(batch) : nullptr;
  if (!shape) return false;
  enqueue_copy(batch, shape->inputs);
  std::unique_ptr<CapturedGraph>& graph = shape->graph_of(part);
  if (!graph) graph = options_.capture([this, shape, part] { enqueue(shape->inputs, part); });
  if (!graph) {  // not on this device after all
    captures_ = false;
    forget_captures();
    return false;
  }
  graph->replay();
  count_progress();
  ++replays_;
  experiment_.arena->bump_epoch();
  return true;
}

}  // namespace whisker
