// Data first (classes), then the network (shapes), then memory, weights and the optimizer.
#include "train/experiment.h"

#include "core/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/cuda_library.h"
#include "core/philox.h"
#include "data/device_loader.h"
#include "data/picture_dataset.h"
#include "data/sampler.h"
#include "layers/weights.h"
#include "train/batch_size_search.h"
#include "train/memory_limit.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace whisker {
namespace {

struct Folders {
  ImageFolder train, val;
};

// The first `batches` batches of a shuffled order, for overfit_batches.
ImageFolder few_batches(const ImageFolder& folder, const TrainSettings& train, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(folder.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  shuffle(order, seed, stream_of("overfit"), 0);
  order.resize(
      std::min(order.size(), static_cast<size_t>(train.overfit_batches * train.batch_size)));
  ImageFolder few = folder;
  few.files.clear();
  for (const int64_t index : order) few.files.push_back(folder.files[static_cast<size_t>(index)]);
  return few;
}

ImageFolder open_train_folder(const DataConfig& data) {
  return open_image_folder(
      data.train, {.label_pattern = data.label_pattern, .csv = data.csv, .name = "data.train"});
}

Folders open_folders(const Config& config) {
  const DataConfig& data = config.data;
  if (data.train.empty()) {
    fail(ErrorKind::usage,
         "data.train: expected a folder of class folders, got ''. Add data.train=DIR.");
  }
  Folders folders;
  folders.train = open_train_folder(data);
  if (!data.val.empty()) {
    folders.val =
        open_image_folder(data.val, {.label_pattern = data.label_pattern, .name = "data.val"});
    check_same_classes(folders.train, folders.val);
  } else if (data.val_split > 0) {
    SplitFolder split =
        split_stratified(folders.train, data.val_split, static_cast<uint64_t>(config.seed));
    folders = {std::move(split.train), std::move(split.val)};
  } else {
    fail(
        ErrorKind::usage,
        "data.val: nothing to validate on. Give data.val=DIR, or data.val_split=0.1 to hold back a "
        "tenth of data.train.");
  }
  if (config.train.overfit_batches > 0) {
    folders.train = few_batches(folders.train, config.train, static_cast<uint64_t>(config.seed));
    folders.val = folders.train;
  }
  return folders;
}

std::unique_ptr<Sampler> make_sampler(const Config& config, const ImageFolder& files) {
  const auto seed = static_cast<uint64_t>(config.seed);
  switch (config.data.sampling) {
    case SamplingKind::shuffle:
      return shuffle_sampler(files.size(), {.seed = seed});
    case SamplingKind::balanced:
      return balanced_sampler(files.labels(), {.seed = seed});
    case SamplingKind::weighted: {  // each class as likely as any other, drawn with replacement
      const std::vector<int64_t> counts = files.counts();
      std::vector<double> weights;
      for (const int64_t label : files.labels()) {
        weights.push_back(1.0 / static_cast<double>(counts[static_cast<size_t>(label)]));
      }
      return weighted_sampler(weights, {.seed = seed});
    }
    case SamplingKind::sequential:
      break;
  }
  return sequential_sampler(files.size());
}

// Training pictures may be kept smaller, as their crops are resized anyway; validation sees exactly
// the pixels that `evaluate` and `classify` see.
CacheOptions cache_of(const Config& config, const ImageFolder& files, const Preprocess& preprocess,
                      Device device, bool training) {
  const DataConfig& data = config.data;
  CacheOptions cache{.kind = data.cache,
                     .max_bytes = static_cast<uint64_t>(data.cache_limit_mib * 1024 * 1024),
                     .device = device};
  if (cache.kind == CacheKind::device && device.kind != DeviceKind::cuda) {
    cache.kind = CacheKind::memory;  // which is that device's
  }
  if (training && preprocess.resize_mode == ResizeMode::crop) {
    // Large enough that the smallest random crop still covers the network's input.
    const PictureSize size = preprocess.output();
    const int side = std::max({preprocess.resize_short, size.height, size.width});
    const double share =
        config.augment.random_resized_crop ? std::sqrt(config.augment.crop_scale.low) : 2.0 / 3;
    cache.short_side = static_cast<int>(std::ceil(side / share));
  }
  if (data.cache == CacheKind::disk) {
    const std::filesystem::path folder = std::filesystem::path(config.runs) / "cache";
    cache.file = data.cache_file.empty() ? folder / fingerprint(files)
                                         : std::filesystem::path(data.cache_file);
    if (!training) cache.file += ".val";
    std::filesystem::create_directories(cache.file.parent_path());
  }
  return cache;
}

}  // namespace

Device resolve_device(const std::string& text) {
  const Device best = cuda_device_count() > 0 ? Device{DeviceKind::cuda, 0} : cpu_device;
  const Device device = text == "auto" ? best : Device::parse(text);
  backend_of(device);  // throws when this build or machine lacks it
  return device;
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
             "precision: {} ({}, compute capability {}.{}) does not compute in bf16, which begins "
             "with 8.0. Use precision: f16, or auto, which is f16 there.",
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

void search_plans(const Config& config, Device device) {
  if (device.kind != DeviceKind::cuda || config.deterministic) return;
  CudaOptions options = cuda_options(device);
  options.search_seconds = 6;  // a table of an earlier run saves it
  set_cuda_options(device, options);
}

YamlNode model_section(const Config& config) {
  if (!config.model.is_scalar() || config.model.text() != "from_weights") return config.model;
  if (config.init.from.empty()) {
    config.model.fail_expected("init.from beside 'from_weights'",
                               "Add init.from=WEIGHTS, or --init WEIGHTS to train.");
  }
  const SafetensorsFile file = SafetensorsFile::open(config.init.from);
  const WeightsInfo info = WeightsInfo::from_file(file);
  if (!info.config.empty()) {
    const YamlNode stored = YamlNode::parse(info.config, config.init.from + ": config");
    if (const YamlNode* model = stored.find("model")) return *model;
  }
  return YamlNode::parse(info.arch, config.init.from + ": arch");
}

int64_t class_count(const Config& config) {
  std::error_code error;
  if (!std::filesystem::is_directory(config.data.train, error)) return 2;
  return static_cast<int64_t>(open_train_folder(config.data).classes.size());
}

int64_t shown_batch_size(const Config& config) {
  return config.train.batch_size > 0 ? config.train.batch_size : 32;
}

Preprocess preprocess_of(const DataConfig& data) {
  Preprocess preprocess;
  const auto side = static_cast<int>(data.image_size);
  if (data.resize_short > 0 && data.resize_mode == ResizeMode::crop) {
    preprocess.resize_short = static_cast<int>(data.resize_short);
    preprocess.crop = {side, side};
  } else {
    preprocess.size = {side, side};
  }
  preprocess.resize_mode = data.resize_mode;
  preprocess.interpolation = data.interpolation;
  preprocess.antialias = data.antialias;
  preprocess.channels = static_cast<int>(data.channels);
  preprocess.normalisation.scale = data.scale;
  for (size_t c = 0; c < 3; ++c) {
    preprocess.normalisation.mean[c] = data.mean[std::min(c, data.mean.size() - 1)];
    preprocess.normalisation.std[c] = data.std[std::min(c, data.std.size() - 1)];
  }
  preprocess.check();
  return preprocess;
}

Experiment::Experiment(Config given, StartFrom start)
    : config(std::move(given)), device(resolve_device(config.device)) {
  const DType precision = compute_dtype(
      config.precision, device, device.kind == DeviceKind::cuda ? cuda_gpu(device) : CudaGpu());
  const bool search = config.train.batch_size == 0;
  if (search) config.train.batch_size = find_batch_size(config);
  configure_backend(config, device);
  const auto seed = static_cast<uint64_t>(config.seed);
  config.model = model_section(config);
  Folders folders = open_folders(config);
  train_files = std::move(folders.train);
  val_files = std::move(folders.val);
  data_fingerprint = fingerprint(train_files) + "-" + fingerprint(val_files);

  const Preprocess preprocess = preprocess_of(config.data);
  const auto classes = static_cast<int64_t>(train_files.classes.size());
  const PictureSize size = preprocess.output();
  Model model =
      build_model(config.model,
                  {.input = {config.train.batch_size, size.height, size.width, preprocess.channels},
                   .classes = classes});
  if (!model.notes.empty())
    notes.push_back(fmt::format("joined: {}", fmt::join(model.notes, "; ")));
  if (search) {
    notes.push_back(fmt::format("train.batch_size: auto is {}", config.train.batch_size));
  }
  if (!config.freeze.empty()) {
    const int64_t frozen = model.net->freeze(config.freeze);
    notes.push_back(fmt::format("{} parameter tensors are frozen", frozen));
  }
  const ParameterList parameters = model.net->parameters();
  Optimizer::assign_groups(parameters, config.optimizer);
  objective = std::make_unique<Objective>(model, config.loss, train_files.counts(), device);
  arena = std::make_shared<ParameterArena>(
      parameters, device, seed,
      ArenaTypes{.compute = precision, .wide_gradients = config.train.accumulate > 1});
  if (!config.init.from.empty() && start == StartFrom::initial_weights) {
    const LoadReport report =
        load_weights(SafetensorsFile::open(config.init.from), model, *arena,
                     {.skip = config.init.skip, .allow_new_head = config.init.new_head});
    notes.push_back(fmt::format("{} tensors loaded from {}", report.loaded, config.init.from));
    if (!report.new_head.empty()) {
      notes.push_back(fmt::format("new head, as the number of classes differs: {} start afresh",
                                  fmt::join(report.new_head, ", ")));
    }
  }
  classifier =
      std::make_unique<Classifier>(std::move(model), arena, train_files.classes, preprocess);
  optimizer = std::make_unique<Optimizer>(*arena, config.optimizer, precision == DType::f16);
  if (config.ema.decay > 0) {
    average = std::make_unique<WeightAverage>(*arena, config.ema.decay, config.ema.warmup);
  }

  const bool plain = config.train.overfit_batches > 0;
  const LoaderOptions common{
      .batch_size = config.train.batch_size,
      .workers = static_cast<int>(config.data.workers.value.value_or(auto_workers)),
      .prefetch = static_cast<int>(config.data.prefetch),
      .max_bad = config.data.max_bad,
  };
  LoaderOptions training = common;
  training.drop_last = config.train.drop_last;
  if (!plain) {
    training.mix = {.augment = config.augment, .classes = classes, .seed = seed};
  }
  LoaderOptions validation = common;
  validation.on_bad = OnBad::skip;
  const auto dataset = [&](const ImageFolder& files, bool augmented) {
    CacheOptions cache = cache_of(config, files, preprocess, device, augmented);
    // One limit for training and validation, shared by their numbers of pictures.
    const double share = static_cast<double>(files.size()) /
                         static_cast<double>(train_files.size() + val_files.size());
    cache.max_bytes = static_cast<uint64_t>(share * static_cast<double>(cache.max_bytes));
    return std::make_shared<PictureDataset>(
        files, PictureDatasetOptions{
                   .preprocess = preprocess,
                   .augment = augmented ? std::optional(config.augment) : std::nullopt,
                   .seed = seed,
                   .max_pixels = config.data.max_pixels,
                   .fast_decode = config.data.decode == DecodeKind::fast,
                   .cache = std::move(cache),
                   .workers = common.workers,
               });
  };
  DeviceLoaderOptions input{.device = device, .dtype = arena->compute_dtype()};
  if (device.kind == DeviceKind::cuda) {
    input.pipeline = backend_of(device).make_picture_pipeline();
  }
  train =
      make_loader(dataset(train_files, !plain), make_sampler(config, train_files), training, input);
  val = make_loader(dataset(val_files, false), sequential_sampler(val_files.size()), validation,
                    input);

  const int64_t steps_per_epoch =
      (train->batches() + config.train.accumulate - 1) / config.train.accumulate;
  if (steps_per_epoch == 0) {
    fail(ErrorKind::usage,
         "train.batch_size: {} training pictures do not fill one batch of {}. Use a smaller "
         "train.batch_size or train.drop_last=false.",
         train_files.size(), config.train.batch_size);
  }
  ScheduleOptions rates = config.schedule;
  rates.maximise = config.train.metric == MetricKind::accuracy;
  schedule = std::make_unique<Schedule>(rates, config.optimizer.learning_rate,
                                        config.train.epochs * steps_per_epoch, steps_per_epoch);
}

WeightsInfo Experiment::weights_info(int64_t epoch, std::string metrics) const {
  return {.classes = classifier->classes(),
          .preprocess = classifier->preprocess(),
          .config = print_config(config),
          .arch = classifier->model().preset,
          .metrics = std::move(metrics),
          .epoch = epoch};
}

}  // namespace whisker
