// Folders of images, decoded and augmented by a loader's threads or on the device.
#include "core/backend/backend.h"
#include "core/communicator/rank_environment.h"
#include "core/io/counted.h"
#include "data/images/cropped_images.h"
#include "data/images/image_dataset.h"
#include "data/images/image_folder.h"
#include "data/images/png_bits.h"
#include "data/loader/device_loader.h"
#include "data/parallel.h"
#include "layers/memory_plan.h"
#include "train/data/copies.h"
#include "train/data/run_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

namespace whisker {
namespace {

ImageFolder open_train_folder(const DataConfig& data) {
  return open_image_folder(data.train, {.label_pattern = data.label_pattern,
                                        .csv = data.csv,
                                        .name = "data.train",
                                        .rules = static_cast<int>(data.rules)});
}

void note_use(const ImageFolder& folder, const char* key, std::vector<std::string>& notes) {
  if (const std::string use = folder.use(); !use.empty()) {
    notes.push_back(fmt::format("{}: {}", key, use));
  }
}

ImageFolders open_folders(const Config& config, std::vector<std::string>& notes) {
  const DataConfig& data = config.data;
  ImageFolders folders;
  folders.train = open_train_folder(data);
  note_use(folders.train, "data.train", notes);
  ImageFolderOptions other{.label_pattern = data.label_pattern,
                           .name = "data.val",
                           .rules = static_cast<int>(data.rules)};
  if (!data.csv.empty()) {
    other.no_folders =
        "data.csv holds the labels of data.train alone: put these images into class folders, or "
        "leave data.val out to split data.train.";
  }
  if (!data.val.empty()) {
    ImageFolderOptions known = other;
    known.classes = folders.train.classes;
    folders.val = open_image_folder(data.val, known);
    note_use(folders.val, "data.val", notes);
  } else {
    SplitFolder split =
        split_stratified(folders.train, data.val_split, static_cast<uint64_t>(config.seed));
    if (const std::string note = split.note(); !note.empty()) {
      notes.push_back("data.val_split: " + note);
    }
    std::string contradicting = contradiction_note(
        {split.contradictions}, folders.train.size(), "images",
        [&](int64_t i) { return folders.train.files[static_cast<size_t>(i)].path; });
    if (!contradicting.empty()) notes.push_back(std::move(contradicting));
    folders = {std::move(split.train), std::move(split.val)};
  }
  std::string missing = missing_classes(folders.val.labels(), folders.val.classes, "images",
                                        data.val.empty() ? "data.val_split" : "data.val");
  if (!missing.empty()) notes.push_back(std::move(missing));
  if (!data.test.empty()) {  // measured at the end: what is wrong with it is said first
    other.name = "data.test";
    other.classes = folders.train.classes;
    folders.test = open_image_folder(data.test, other);
    note_use(folders.test, "data.test", notes);
    missing = missing_classes(folders.test.labels(), folders.test.classes, "images", "data.test");
    if (!missing.empty()) notes.push_back(std::move(missing));
  }
  if (config.train.overfit_batches > 0) {
    ImageFolder few = folders.train;
    few.files.clear();
    for (const int64_t index : overfit_indices(config, folders.train.size())) {
      few.files.push_back(folders.train.files[static_cast<size_t>(index)]);
    }
    folders.train = folders.val = few;
  }
  return folders;
}

// Training images may be cached smaller, because their crops are resized anyway; validation uses
// exactly the pixels of `evaluate` and `classify`.
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
    const ImageSize size = preprocess.output();
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
    const std::filesystem::path parent = cache.file.parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent);
  }
  return cache;
}

// The device's decoder of training JPEGs, and its fraction of them.
struct GpuDecoding {
  std::shared_ptr<JpegDecoder> decoder;  // null: nobody
  double share = 0;
};

/// The cores of this process, where several on this machine share them.
int64_t decoding_cores(const DataConfig& data, int world) {
  const int64_t ranks = rank_environment().one_machine ? world : 1;
  const int64_t cores = std::max<int64_t>(1, allowed_cores() / ranks);
  return std::min(cores, std::max<int64_t>(1, data.workers.value.value_or(cores)));
}

GpuDecoding gpu_decoding(const Config& config, Device device, RunData& run) {
  const DataConfig& data = config.data;
  const std::optional<int64_t>& percent = data.gpu_decode.value;
  const bool allowed = data.decode == DecodeKind::fast && data.cache == CacheKind::none;
  if (percent.value_or(0) > 0 && !allowed) {
    fail(ErrorKind::usage,
         "data.gpu_decode: expected auto or 0 with data.decode: exact or a cache, which keeps "
         "images exactly as the CPU decodes them; got {}.",
         *percent);
  }
  if (percent.value_or(0) > 0 && config.deterministic) {
    fail(ErrorKind::usage,
         "data.gpu_decode: expected auto or 0 with deterministic: true, because the CPU decodes "
         "what nvJPEG refuses, with slightly other pixels; got {}.",
         *percent);
  }
  const bool policy = config.augment.has_policy();
  if (percent.value_or(0) > 0 && policy) {
    fail(ErrorKind::usage,
         "data.gpu_decode: expected auto or 0 with augment.rand_augment or trivial_augment, which "
         "the CPU applies to decoded images; got {}.",
         *percent);
  }
  const bool wanted = percent ? *percent > 0 : allowed && !policy && !config.deterministic;
  if (device.kind != DeviceKind::cuda || !wanted) return {};
  std::string why;
  auto decoder = backend_of(device).make_jpeg_decoder(why);
  if (!decoder) {
    if (percent) {
      fail(ErrorKind::device, "data.gpu_decode: {} is requested, but {} Set it to auto or 0.",
           *percent, why);
    }
    run.notes.push_back(fmt::format("data.gpu_decode: the CPU decodes all JPEG files: {}", why));
    return {};
  }
  const int64_t cores = decoding_cores(data, run.part.world);
  const int64_t share = percent.value_or(auto_gpu_decode(cores));
  const std::string chosen =
      percent ? "" : fmt::format("auto is {} with {}: ", share, counted(cores, "CPU core"));
  run.notes.push_back(gpu_decode_note(share, chosen, decoder->description()));
  return {.decoder = std::move(decoder), .share = static_cast<double>(share) / 100};
}

}  // namespace

int64_t auto_gpu_decode(int64_t cores) {
  return cores <= 4 ? 75 : cores <= 8 ? 50 : 0;
}

std::string gpu_decode_note(int64_t share, std::string_view chosen, std::string_view decoder) {
  const std::string who =
      share == 0
          ? "the CPU decodes all JPEG files"
          : fmt::format("{} decodes {} % of the training batches' JPEG files", decoder, share);
  return fmt::format("data.gpu_decode: {}{}", chosen, who);
}

int64_t class_count(const Config& config) {
  std::error_code error;
  if (!std::filesystem::is_directory(config.data.train, error)) return 2;
  return static_cast<int64_t>(open_train_folder(config.data).classes.size());
}

void check_takes_both_sizes(const Model& model, const DataConfig& data) {
  if (data.kind != DataKind::images || data.train_image_size == 0) return;
  try {
    MemoryPlan::of(*model.net, model.input.with(1, data.image_size).with(2, data.image_size));
  } catch (const Error& error) {
    fail(error.kind(),
         "data.train_image_size: {} fits the network, but not images of data.image_size {} as well "
         "({}). Leave data.train_image_size out: only a network without position_embedding, whose "
         "image "
         "part ends with global_avg_pool2d, accepts any size.",
         data.train_image_size, data.image_size, error.what());
  }
}

namespace {

// data.png_bits: auto: the bits of the training images, and of those split from them. Validation or
// test images of more bits are refused; fewer are said.
int settle_png_bits(const DataConfig& data, const ImageFolders& folders,
                    std::vector<std::string>& notes) {
  const auto workers = static_cast<int>(data.workers.value.value_or(auto_workers));
  const PngBits found = find_png_bits(folders.train, workers);
  if (std::string note = found.note(); !note.empty()) notes.push_back(std::move(note));
  for (const auto& [key, folder, own] :
       {std::tuple("data.val", &folders.val, data.val.empty()),
        std::tuple("data.test", &folders.test, data.test.empty())}) {
    if (own) continue;
    const PngBits other = find_png_bits(*folder, workers);
    if (other.bits == found.bits || other.largest == 0) continue;
    const std::string differs =
        fmt::format("{}: the largest sample in {} of {} of 16 bits is {}, in data.train {}", key,
                    other.read, counted(other.files, "file"), other.largest, found.largest);
    if (other.bits > found.bits) {
      fail(ErrorKind::data,
           "{}. data.png_bits={} reads all as they are, data.png_bits={} larger samples as white. "
           "Set one of them.",
           differs, other.bits, found.bits);
    }
    notes.push_back(fmt::format("{}: it looks dark, as data.png_bits is {}", differs, found.bits));
  }
  return found.bits;
}

}  // namespace

RunData open_images(const Config& config, Partition part) {
  std::vector<std::string> notes;
  ImageFolders folders = open_folders(config, notes);
  Preprocess preprocess = preprocess_of(config.data);
  if (!config.data.png_bits.value && config.data.rules > 1) {
    preprocess.rules.png_bits = settle_png_bits(config.data, folders, notes);
  }
  if (preprocess.resize_mode == ResizeMode::crop) {
    std::string note =
        find_cropped(folders.train,
                     static_cast<int>(config.data.workers.value.value_or(auto_workers)))
            .note();
    if (!note.empty()) notes.push_back(std::move(note));
  }
  RunData data{.signature = {.input = preprocess, .classes = folders.train.classes},
               .class_counts = folders.train.counts(),
               .train_size = folders.train.size(),
               .val_size = folders.val.size(),
               .part = part,
               .fingerprint = fingerprint(folders.train) + "-" + fingerprint(folders.val),
               .val_lacks = absent_classes(folders.val.labels(), folders.val.classes),
               .notes = std::move(notes)};
  for (const auto& [key, folder] :
       {std::pair{"data.train", &folders.train}, std::pair{"data.val", &folders.val}}) {
    for (const std::string& note : folder->notes) {
      data.notes.push_back(fmt::format("{}: {}", key, note));
    }
  }
  for (std::string& pair : similar_classes(data.signature.classes)) {
    data.notes.push_back("data.train: " + std::move(pair));
  }
  data.images = std::move(folders);
  return data;
}

void open_image_loaders(const Config& config, Device device, DType compute, RunData& data) {
  const ImageFolders& folders = data.images;
  const auto& preprocess = std::get<Preprocess>(data.signature.input);
  const Preprocess training_preprocess = training_preprocess_of(config.data);
  const auto seed = static_cast<uint64_t>(config.seed);
  const auto classes = static_cast<int64_t>(data.signature.classes.size());
  const bool plain = config.train.overfit_batches > 0;
  const LoaderOptions common{
      .batch_size = config.train.batch_size,
      .workers = static_cast<int>(config.data.workers.value.value_or(auto_workers)),
      .prefetch = static_cast<int>(config.data.prefetch),
      .part = data.part,
      .max_bad = config.data.max_bad,
  };
  LoaderOptions training = common;
  training.drop_last = config.train.drop_last;
  if (!plain) {
    training.mix = {.augment = config.augment, .classes = classes, .seed = seed};
    GpuDecoding decoding = gpu_decoding(config, device, data);
    training.jpeg_decoder = std::move(decoding.decoder);
    training.jpeg_share = decoding.share;
  }
  LoaderOptions validation = common;
  validation.on_bad = OnBad::skip;
  // `read_once` shares the stamps of data.train_images, which hold what a resume compares.
  const auto dataset = [&](const ImageFolder& files, const Preprocess& to_input, bool augmented,
                           bool read_once = false) {
    CacheOptions cache;
    std::shared_ptr<FileStamps> stamps;
    if (read_once) {
      stamps = {data.train_images, &data.train_images->stamps()};
    } else {
      cache = cache_of(config, files, to_input, device, augmented);
    }
    cache.max_bytes = static_cast<uint64_t>(data.fraction_of(files.size()) *
                                            static_cast<double>(cache.max_bytes));
    return std::make_shared<ImageDataset>(
        files, ImageDatasetOptions{
                   .preprocess = to_input,
                   .augment = augmented ? std::optional(config.augment) : std::nullopt,
                   .seed = seed,
                   .max_pixels = config.data.max_pixels,
                   .fast_decode = config.data.decode == DecodeKind::fast,
                   .cache = std::move(cache),
                   .workers = common.workers,
                   .stamps = std::move(stamps),
               });
  };
  DeviceLoaderOptions input{.device = device, .dtype = compute};
  if (device.kind == DeviceKind::cuda) {
    input.pipeline = backend_of(device).make_image_pipeline();
  }
  data.train_images = dataset(folders.train, training_preprocess, !plain);
  data.val_images = dataset(folders.val, preprocess, false);
  for (const auto& set : {data.train_images, data.val_images}) {
    if (std::string note = set->take_note(); !note.empty()) data.notes.push_back(std::move(note));
  }
  data.train = make_loader(data.train_images, make_sampler(config, folders.train.labels(), classes),
                           training, input);
  data.val = make_loader(data.val_images, sequential_sampler(data.val_size), validation, input);
  if (config.features == FeatureKind::cached && data.part.world == 1) {
    data.plain_train = make_loader(dataset(folders.train, preprocess, false, true),
                                   sequential_sampler(data.train_size), common, input);
  }
}

}  // namespace whisker
