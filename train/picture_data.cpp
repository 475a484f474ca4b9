// Folders of pictures, decoded and augmented by a loader's threads or on the device.
#include "core/backend.h"
#include "data/device_loader.h"
#include "data/image_folder.h"
#include "data/picture_dataset.h"
#include "data/unread_formats.h"
#include "layers/plan.h"
#include "train/experiment.h"
#include "train/run_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace whisker {
namespace {

ImageFolder open_train_folder(const DataConfig& data) {
  return open_image_folder(
      data.train, {.label_pattern = data.label_pattern, .csv = data.csv, .name = "data.train"});
}

PictureFolders open_folders(const Config& config) {
  const DataConfig& data = config.data;
  PictureFolders folders;
  folders.train = open_train_folder(data);
  if (!data.val.empty()) {
    folders.val =
        open_image_folder(data.val, {.label_pattern = data.label_pattern, .name = "data.val"});
    check_same_classes(folders.train, folders.val);
  } else {
    SplitFolder split =
        split_stratified(folders.train, data.val_split, static_cast<uint64_t>(config.seed));
    folders = {std::move(split.train), std::move(split.val)};
  }
  if (config.train.overfit_batches > 0) {
    ImageFolder few = folders.train;
    few.files.clear();
    for (const int64_t index : overfit_indices(config, folders.train.size())) {
      few.files.push_back(folders.train.files[static_cast<size_t>(index)]);
    }
    folders = {few, few};
  }
  return folders;
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

// Who decodes training JPEGs on the device, and how many of them.
struct GpuDecoding {
  std::shared_ptr<JpegDecoder> decoder;  // null: nobody
  double share = 0;
  bool find_share = false;
};

GpuDecoding gpu_decoding(const Config& config, Device device, std::vector<std::string>& notes) {
  const DataConfig& data = config.data;
  const std::optional<int64_t>& percent = data.gpu_decode.value;
  const bool allowed = data.decode == DecodeKind::fast && data.cache == CacheKind::none;
  if (percent.value_or(0) > 0 && !allowed) {
    fail(ErrorKind::usage,
         "data.gpu_decode: expected auto or 0 with data.decode: exact or a cache, which keeps "
         "pictures exactly as the CPU decodes them; got {}.",
         *percent);
  }
  if (percent.value_or(0) > 0 && config.deterministic) {
    fail(ErrorKind::usage,
         "data.gpu_decode: expected auto or 0 with deterministic: true, as what nvJPEG refuses the "
         "CPU decodes, with other pixels; got {}.",
         *percent);
  }
  const bool wanted = percent ? *percent > 0 : allowed && !config.deterministic;
  if (device.kind != DeviceKind::cuda || !wanted) return {};
  std::string why;
  auto decoder = backend_of(device).make_jpeg_decoder(why);
  if (!decoder) {
    if (percent) {
      fail(ErrorKind::device, "data.gpu_decode: {} is asked for, but {} Set it to auto or 0.",
           *percent, why);
    }
    notes.push_back(fmt::format("data.gpu_decode: the CPU decodes all JPEG files: {}", why));
    return {};
  }
  notes.push_back(fmt::format(
      "data.gpu_decode: {}, {}", decoder->description(),
      percent ? fmt::format("decodes {} % of the training batches' JPEG files", *percent)
              : "decodes as many JPEG files as timing finds best"));
  return {.decoder = std::move(decoder),
          .share = static_cast<double>(percent.value_or(0)) / 100,
          .find_share = !percent};
}

}  // namespace

int64_t class_count(const Config& config) {
  std::error_code error;
  if (!std::filesystem::is_directory(config.data.train, error)) return 2;
  return static_cast<int64_t>(open_train_folder(config.data).classes.size());
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

Preprocess training_preprocess_of(const DataConfig& data) {
  if (data.train_image_size == 0) return preprocess_of(data);
  DataConfig training = data;
  training.image_size = data.train_image_size;
  const double ratio =
      static_cast<double>(data.train_image_size) / static_cast<double>(data.image_size);
  training.resize_short = std::lround(static_cast<double>(data.resize_short) * ratio);
  return preprocess_of(training);
}

void check_takes_both_sizes(const Model& model, const DataConfig& data) {
  if (data.kind != DataKind::pictures || data.train_image_size == 0) return;
  try {
    Plan::of(*model.net, model.input.with(1, data.image_size).with(2, data.image_size));
  } catch (const Error& error) {
    fail(error.kind(),
         "data.train_image_size: {} fits the network, but not pictures of data.image_size {} as "
         "well ({}). Leave data.train_image_size out, or end the network's picture part with "
         "global_avg_pool2d, which takes any size.",
         data.train_image_size, data.image_size, error.what());
  }
}

RunData open_pictures(const Config& config) {
  PictureFolders folders = open_folders(config);
  RunData data{.signature = {.input = preprocess_of(config.data), .classes = folders.train.classes},
               .class_counts = folders.train.counts(),
               .train_size = folders.train.size(),
               .val_size = folders.val.size(),
               .fingerprint = fingerprint(folders.train) + "-" + fingerprint(folders.val)};
  for (const auto& [key, folder] :
       {std::pair{"data.train", &folders.train}, std::pair{"data.val", &folders.val}}) {
    const std::string unread = unread_formats(folder->skipped);
    if (unread.empty()) continue;
    data.notes.push_back(
        fmt::format("{}: {} passed over: JPEG, PNG and BMP are read", key, unread));
  }
  data.pictures = std::move(folders);
  return data;
}

void open_picture_loaders(const Config& config, Device device, DType compute, RunData& data) {
  const PictureFolders folders = std::exchange(data.pictures, {});
  const auto& preprocess = std::get<Preprocess>(data.signature.input);
  const Preprocess training_preprocess = training_preprocess_of(config.data);
  const auto seed = static_cast<uint64_t>(config.seed);
  const auto classes = static_cast<int64_t>(data.signature.classes.size());
  const bool plain = config.train.overfit_batches > 0;
  const LoaderOptions common{
      .batch_size = config.train.batch_size,
      .workers = static_cast<int>(config.data.workers.value.value_or(auto_workers)),
      .prefetch = static_cast<int>(config.data.prefetch),
      .max_bad = config.data.max_bad,
  };
  LoaderOptions training = common;
  training.drop_last = config.train.drop_last;
  DeviceLoaderOptions training_input{.device = device, .dtype = compute};
  if (!plain) {
    training.mix = {.augment = config.augment, .classes = classes, .seed = seed};
    GpuDecoding decoding = gpu_decoding(config, device, data.notes);
    training.jpeg_decoder = std::move(decoding.decoder);
    training.jpeg_share = decoding.share;
    training_input.find_jpeg_share = decoding.find_share;
  }
  LoaderOptions validation = common;
  validation.on_bad = OnBad::skip;
  const auto dataset = [&](const ImageFolder& files, const Preprocess& to_input, bool augmented) {
    CacheOptions cache = cache_of(config, files, to_input, device, augmented);
    // One limit for training and validation, shared by their numbers of pictures.
    const double share =
        static_cast<double>(files.size()) / static_cast<double>(data.train_size + data.val_size);
    cache.max_bytes = static_cast<uint64_t>(share * static_cast<double>(cache.max_bytes));
    return std::make_shared<PictureDataset>(
        files, PictureDatasetOptions{
                   .preprocess = to_input,
                   .augment = augmented ? std::optional(config.augment) : std::nullopt,
                   .seed = seed,
                   .max_pixels = config.data.max_pixels,
                   .fast_decode = config.data.decode == DecodeKind::fast,
                   .cache = std::move(cache),
                   .workers = common.workers,
               });
  };
  DeviceLoaderOptions input{.device = device, .dtype = compute};
  if (device.kind == DeviceKind::cuda) {
    input.pipeline = backend_of(device).make_picture_pipeline();
    training_input.pipeline = input.pipeline;
  }
  data.train =
      make_loader(dataset(folders.train, training_preprocess, !plain),
                  make_sampler(config, folders.train.labels(), classes), training, training_input);
  data.val = make_loader(dataset(folders.val, preprocess, false), sequential_sampler(data.val_size),
                         validation, input);
}

}  // namespace whisker
