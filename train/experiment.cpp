// Data first (classes), then the network (shapes), then the device, memory, weights and the
// optimizer.
#include "train/experiment.h"

#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/nvidia/cuda_library.h"
#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/memory_plan.h"
#include "layers/recomputed_blocks.h"
#include "train/config/memory_limit.h"
#include "train/config/unlikely_settings.h"
#include "train/config/unused_settings.h"
#include "train/data/feature_source.h"
#include "train/device/device_choice.h"
#include "train/device/device_start.h"
#include "train/metrics/evaluate.h"
#include "train/model/freeze_layers.h"
#include "train/model/initial_weights.h"
#include "train/model/norm_batches.h"
#include "train/ranks/same_run.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace whisker {

DType compute_dtype(PrecisionKind precision, Device device) {
  const bool gpu = device.kind == DeviceKind::cuda;
  return compute_dtype(precision, device, gpu ? cuda_gpu(device) : CudaGpu());
}

DType compute_dtype(PrecisionKind precision, Device device, const CudaGpu& card) {
  const bool gpu = device.kind == DeviceKind::cuda;
  constexpr int first_with_bf16 = 80;
  switch (precision) {
    case PrecisionKind::automatic:
      if (!gpu) return DType::f32;
      return card.capability >= first_with_bf16 ? DType::bf16 : DType::f16;
    case PrecisionKind::f32:
      return DType::f32;
    case PrecisionKind::bf16:
      if (gpu && card.capability < first_with_bf16) {
        fail(ErrorKind::usage,
             "precision: {} ({}, compute capability {}.{}) does not compute in bf16, which needs "
             "8.0 or newer. Use precision: f16, or auto, which is f16 there.",
             device, card.name, card.capability / 10, card.capability % 10);
      }
      if (device.kind != DeviceKind::reference) return DType::bf16;
      fail(ErrorKind::usage, "precision: {} computes in f32, not in bf16. Use precision: f32.",
           device);
    case PrecisionKind::f16:
      if (gpu) return DType::f16;
      fail(ErrorKind::usage,
           "precision: {} only stores and converts f16, it does not compute in it. Use precision: "
           "{}.",
           device, device.kind == DeviceKind::cpu ? "bf16 or f32" : "f32");
  }
  return DType::f32;
}

void configure_backend(const Config& config, Device device) {
  if (device.kind == DeviceKind::cuda) {
    CudaOptions options = cuda_options(device);
    options.deterministic = config.deterministic;
    options.search_seconds = 0;
    set_cuda_options(device, options);
  }
  limit_memory(config.runtime.memory, device);
  if (device != cpu_device) return;
  set_cpu_options({.threads = static_cast<int>(config.runtime.threads),
                   .winograd = config.runtime.winograd,
                   .deterministic = config.deterministic});
}

void search_plans(const Config& config, Device device, int64_t steps) {
  if (device.kind != DeviceKind::cuda || config.deterministic) return;
  CudaOptions options = cuda_options(device);
  options.search_seconds = 20;  // a table of an earlier run saves it
  options.search_uses = steps;
  set_cuda_options(device, options);
}

namespace {

// A precision that the CPU lacks may have been meant for the GPU that auto skipped.
DType compute_dtype(PrecisionKind precision, const DeviceChoice& choice) {
  try {
    return compute_dtype(precision, choice.device);
  } catch (const Error& error) {
    if (choice.note.empty()) throw;
    fail(error.kind(), "{} ({})", error.what(), choice.note);
  }
}

std::unique_ptr<Schedule> make_schedule(const Experiment& experiment) {
  const TrainSettings& settings = experiment.config.train;
  const int64_t steps_per_epoch =
      (experiment.batches_per_epoch() + settings.accumulate - 1) / settings.accumulate;
  if (steps_per_epoch == 0) {
    fail(ErrorKind::usage,
         "train.batch_size: {} training {} do not fill one batch of {}. Use a smaller "
         "train.batch_size or train.drop_last=false.",
         experiment.data.train_size, experiment.data.signature.examples(), settings.batch_size);
  }
  ScheduleOptions options = experiment.config.schedule;
  options.maximise = experiment.best_figure(*make_metrics(*experiment.network)).higher_is_better;
  return std::make_unique<Schedule>(options, experiment.config.optimizer.learning_rate,
                                    settings.epochs * steps_per_epoch, steps_per_epoch);
}

void check_ranks(const Config& config, int world) {
  if (config.train.batch_size < world) {
    fail(ErrorKind::usage,
         "train.batch_size: expected at least one example for each of {} ranks, got {} in all.",
         world, config.train.batch_size);
  }
}

// Statistics of the whole batch need an example on every rank, also in the last one of an epoch.
void check_last_batch(const Config& config, const RunData& data, int world) {
  if (!config.train.sync_batch_norm || config.train.drop_last) return;
  if (config.data.kind == DataKind::language) return;  // its batches are all alike
  const int64_t rest = data.train_size % config.train.batch_size;
  if (rest == 0 || rest >= world) return;
  fail(ErrorKind::usage,
       "train.sync_batch_norm: expected an example for each of {} ranks in every batch, got {} in "
       "the last batch of an epoch ({} training {} in batches of {}). Use train.drop_last=true or "
       "another train.batch_size.",
       world, rest, data.train_size, data.signature.examples(), config.train.batch_size);
}

void check_any_trains(const Config& config, const Module& net) {
  if (trained_layers(net.parameters(), TrainedFrom::start) != "none") return;
  if (config.freeze.empty() && !config.freeze_norm) {
    fail(ErrorKind::usage, "model: it has no parameters to train. Add a layer such as dense.");
  }
  fail(ErrorKind::usage,
       "freeze: no parameter is left to train{}. Freeze fewer: freeze=[backbone] leaves the last "
       "layer.",
       config.unfreeze_at > 0 ? " before unfreeze_at" : "");
}

// Its value would be 0 in every epoch.
void check_positive_class_validates(const Config& config, const RunData& data) {
  if (config.train.metric != MetricKind::f1_class) return;
  if (std::ranges::count(data.val_lacks, config.train.positive_class) == 0) return;
  fail(ErrorKind::data,
       "train.metric: f1_class is that of {}, of which the validation data have no {}. Add some to "
       "data.val, or use train.metric=f1_macro.",
       excerpt(config.train.positive_class), data.signature.examples());
}

RunBatches batches_of(const Config& config, const RunData& data, int world) {
  const bool alike = config.data.kind == DataKind::language;
  return {.examples = alike ? config.train.batch_size : data.train_size,
          .batch_size = config.train.batch_size,
          .drop_last = config.train.drop_last,
          .world = world,
          .sync_norms = config.train.sync_batch_norm};
}

// `batches` are those of an epoch.
std::vector<std::string> accumulate_notes(const Config& config, const Model& model,
                                          int64_t batches) {
  std::vector<std::string> notes;
  const int64_t of_step = std::min(config.train.accumulate, batches);
  if (of_step < config.train.accumulate) {
    notes.push_back(fmt::format("train.accumulate={}: an epoch has {}, and a step no more",
                                config.train.accumulate, counted(batches, "batch")));
  }
  if (of_step > 1 && has_batch_statistics(model)) {
    notes.push_back(fmt::format(
        "train.accumulate: batch_norm normalises each batch of {} with statistics of its own, not "
        "the {} batches of a step with one; group_norm, layer_norm or freeze_norm=true avoid that",
        config.train.batch_size, of_step));
  }
  return notes;
}

std::vector<std::string> norm_notes(const Config& config, const Model& model) {
  std::vector<std::string> notes;
  if (!has_batch_statistics(model)) return notes;
  if (config.ema.decay > 0) {
    notes.push_back(fmt::format(
        "ema: before each validation, batch_norm's statistics are measured for the averaged "
        "weights on about {} training examples, or all of fewer; ema.decay=0 or freeze_norm=true "
        "avoids that",
        examples_to_measure));
  }
  return notes;
}

// The loaders compute the first, frozen layers once per image.
void cache_features(Experiment& experiment) {
  const Config& config = experiment.config;
  if (experiment.ranks->world() > 1) {
    experiment.notes.emplace_back("features: cached is for one process: computed for every batch");
    return;
  }
  FeatureOptions options{.first_layer = first_trained_layer(*experiment.network),
                         .batch_size = config.train.batch_size,
                         .drop_last = config.train.drop_last,
                         .epochs = config.unfreeze_at};
  const double limit = config.data.cache_limit_mib * 1024 * 1024;
  const auto most_of_train =
      static_cast<int64_t>(experiment.data.fraction_of(experiment.data.train_size) * limit);
  options.most_bytes = static_cast<int64_t>(limit) - most_of_train;
  options.images = experiment.data.val_size;
  const Network& network = *experiment.network;
  experiment.val = feature_source(network, std::move(experiment.val), nullptr, nullptr, options);
  auto order =
      make_sampler(config, experiment.data.images.train.labels(), std::ssize(network.classes()));
  options.most_bytes = most_of_train;
  options.images = experiment.data.train_size;
  experiment.train = feature_source(network, std::move(experiment.data.plain_train),
                                    std::move(experiment.train), std::move(order), options);
}

// "relu limits its outputs to 0 and above" of the last layer; "" where nothing does.
std::string limit_of_outputs(const Model& model) {
  if (model.net->size() == 0) return "";
  const Module* const last = model.net->layer(model.net->size() - 1).get();
  Activation kind = Activation::none;
  if (const auto* dense = dynamic_cast<const Dense*>(last)) {
    kind = dense->options().activation.kind;
  } else if (const auto* layer = dynamic_cast<const ActivationLayer*>(last)) {
    kind = layer->activation().kind;
  }
  constexpr std::pair<Activation, const char*> ranges[] = {
      {Activation::relu, "0 and above"},
      {Activation::relu6, "0 to 6"},
      {Activation::tanh, "-1 to 1"},
      {Activation::sigmoid, "0 to 1"},
      {Activation::hard_sigmoid, "0 to 1"},
      {Activation::softplus, "above 0"},
      {Activation::gelu, "-0.17 and above"},
      {Activation::silu, "-0.28 and above"},
      {Activation::hard_swish, "-0.38 and above"}};
  for (const auto& [bounded, range] : ranges) {
    if (bounded == kind) return fmt::format("{} limits its outputs to {}", name_of(kind), range);
  }
  return "";
}

// Settings without effect, of the configuration and of the model for this task, or hardly meant.
void add_unused(const Config& config, int world, const Model& model, const Signature& signature,
                std::vector<std::string>& notes) {
  for (const auto& keys : {unused_settings(config, world), unlikely_settings(config)}) {
    notes.insert(notes.end(), keys.begin(), keys.end());
  }
  notes.insert(notes.end(), model.unused.begin(), model.unused.end());
  const auto is_norm = [](const auto& one) { return one->role() == ParameterRole::norm; };
  if (config.freeze_norm && std::ranges::none_of(model.net->parameters(), is_norm)) {
    notes.emplace_back("freeze_norm has no effect: the model has no normalisation layer");
  }
  if (const std::string limit = limit_of_outputs(model); !limit.empty()) {
    notes.push_back(fmt::format(
        "the last layer's {}: {}. Leave it out", limit,
        signature.task() == Task::regression
            ? "targets are scaled to mean 0 and deviation 1, and nothing beyond can be forecast"
            : "the loss takes them for logits, numbers of any size"));
  }
  if (signature.task() == Task::classification || !model.named_output) return;
  const bool softmax = *model.named_output == OutputKind::softmax;
  if (signature.task() == Task::language_model && softmax) return;  // it is the loss's
  notes.push_back(fmt::format(
      "the last layer's {} has no effect: {}", softmax ? "softmax" : "sigmoid",
      signature.task() == Task::regression ? "a forecast's outputs are numbers of any size"
                                           : "the loss of a language model has a softmax"));
}

}  // namespace

Experiment::Experiment(Config given, StartFrom start, std::shared_ptr<RankGroup> group)
    : config(std::move(given)) {
  if (start == StartFrom::initial_weights) config = resolve_config(std::move(config), &notes);
  if (config.train.batch_size == 0) {
    fail(ErrorKind::internal, "train.batch_size is auto: see settle_batch_size()");
  }
  check_ranks(config, group->world());
  data = open_data(config, {.rank = group->rank(), .world = group->world()});
  if (const auto* found = std::get_if<Preprocess>(&data.signature.input)) {
    if (config.data.rules > 1) config.data.png_bits.value = found->rules.png_bits;
  }
  check_last_batch(config, data, group->world());
  data.signature.set_positive_class(config.train.positive_class, ErrorKind::usage,
                                    "train.positive_class");
  if (start == StartFrom::initial_weights) check_positive_class_validates(config, data);
  const Signature& signature = data.signature;
  Model model = build_model(config.model, training_build(config, data));
  check_takes_both_sizes(model, config.data);
  add_unused(config, group->world(), model, signature, notes);
  std::error_code none_there;
  if (std::filesystem::equivalent(config.data.train, config.data.val, none_there)) {
    notes.push_back(fmt::format("data.val is data.train: validation does not measure other {}",
                                signature.examples()));
  }
  if (const std::string note = freeze_layers(config, model); !note.empty()) {
    notes.push_back(note);
  }
  check_any_trains(config, *model.net);
  if (start == StartFrom::initial_weights) {
    check_norm_batches(model, batches_of(config, data, group->world()), signature.examples());
  }
  for (std::string& note : norm_notes(config, model)) notes.push_back(std::move(note));
  if (std::string text = recomputed_text(recomputed_blocks(*model.net)); !text.empty()) {
    notes.push_back(std::move(text));
  }
  const ParameterList parameters = model.net->parameters();
  Optimizer::assign_groups(parameters, config.optimizer);

  const DeviceChoice choice = choose_device(device_of_rank(config.device, *group));
  device = choice.device;
  const DType precision = compute_dtype(config.precision, choice);
  const bool gpu = device.kind == DeviceKind::cuda;
  require_same_start(*group, config, data,
                     {{.name = "device", .value = gpu ? "a GPU" : "a CPU"},
                      {.name = "precision", .value = fmt::format("{}", precision)}});
  ranks = make_communicator(std::move(group), device);
  if (ranks->world() > 1) {
    notes.push_back(fmt::format("{} ranks, {}: each trains on {} of the {} examples of a batch",
                                ranks->world(), ranks->description(),
                                data.part.of(config.train.batch_size), config.train.batch_size));
  }
  if (!choice.note.empty()) notes.push_back(choice.note);
  std::vector<std::string> fused =
      MemoryPlan::of(*model.net, model.input, device, precision).notes();
  fused.insert(fused.end(), model.notes.begin(), model.notes.end());
  if (!fused.empty()) details.push_back(fmt::format("fused: {}", fmt::join(fused, "; ")));
  LibraryStart libraries(device, libraries_of(*model.net));
  configure_backend(config, device);
  if (config.data.kind == DataKind::images) open_image_loaders(config, device, precision, data);
  for (const auto* found : {&data.notes, &data.left_out}) {
    notes.insert(notes.begin(), found->begin(), found->end());
  }
  train = std::move(data.train);
  val = std::move(data.val);
  for (std::string& note : accumulate_notes(config, model, batches_per_epoch())) {
    notes.push_back(std::move(note));
  }
  objective = std::make_unique<Objective>(model, signature, config.loss, data.class_counts, device);
  if (ranks->world() > 1) objective->set_ranks(ranks);
  arena = std::make_shared<ParameterArena>(
      parameters, device, static_cast<uint64_t>(config.seed),
      ArenaTypes{.compute = precision, .wide_gradients = config.train.accumulate > 1});
  if (!config.init.from.empty() && start == StartFrom::initial_weights) {
    const InitialWeights loaded = load_initial_weights(config, model, *arena, signature);
    notes.insert(notes.end(), loaded.notes.begin(), loaded.notes.end());
    initial_batches = loaded.batches_tracked;
  }
  network = std::make_unique<Network>(std::move(model), arena, signature);
  if (config.features == FeatureKind::cached) cache_features(*this);
  optimizer = std::make_unique<Optimizer>(*arena, config.optimizer, precision == DType::f16);
  if (config.ema.decay > 0) {
    average = std::make_unique<WeightAverage>(*arena, config.ema.decay, config.ema.warmup);
  }
  schedule = make_schedule(*this);
  libraries.wait();
}

Figure Experiment::best_figure(const Metrics& metrics) const {
  constexpr std::string_view names[] = {"",     "accuracy", "f1",       "mae",
                                        "rmse", "loss",     "f1_macro", "f1_class"};
  const std::string_view name = names[static_cast<size_t>(config.train.metric)];
  if (!name.empty()) return metrics.figure(name);
  const bool language = network->signature().task() == Task::language_model;
  return language ? metrics.figure("loss") : metrics.figures().front();
}

void Experiment::unfreeze() {
  arena->unfreeze();
  optimizer->unfreeze();
}

WeightsInfo Experiment::weights_info(int64_t epoch, std::string metrics) const {
  return {.signature = network->signature(),
          .config = print_config(config),
          .arch = network->model().preset,
          .metrics = std::move(metrics),
          .epoch = epoch};
}

}  // namespace whisker
