// What of a network's training speed is left when its images come from JPEG files: random resized
// crops with flips, decoded by the CPU's threads, by nvJPEG, and by both. One JSON line per row:
//   loader     batches made and thrown away: fast, exact, and with nvJPEG
//   resident   training steps over a batch that lies in the device's memory
//   training   the same steps, each over the loader's next batch, and the ratio to `resident` just
//              before
// The images are read again and again, so after the first time from the system's page cache.
// usage: bench_end_to_end FOLDER-OF-CLASS-FOLDERS [--device cuda] [--model resnet18] [--side 224]
//                         [--batch 256] [--precision bf16] [--workers 16] [--batches 200]
//                         [--search SECONDS]
#include "bench/joined_epochs.h"
#include "bench/switched_source.h"
#include "core/backend/backend.h"
#include "core/io/json.h"
#include "core/nvidia/cuda_library.h"
#include "data/images/image_dataset.h"
#include "data/loader/device_loader.h"
#include "train/device/autotune_cache.h"
#include "train/experiment.h"
#include "train/loop/train_step.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace whisker;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Options {
  std::string folder;
  std::string device = "cuda";
  std::string model = "resnet18";
  std::string precision = "bf16";
  int side = 224;
  int64_t batch = 256;
  int workers = 16;
  int64_t batches = 200;
  double search = 60;
};

Options parse(int argc, char** argv) {
  Options options;
  if (argc > 1) options.folder = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--device") options.device = value;
    if (name == "--model") options.model = value;
    if (name == "--precision") options.precision = value;
    if (name == "--side") options.side = std::stoi(value);
    if (name == "--batch") options.batch = std::stoll(value);
    if (name == "--workers") options.workers = std::stoi(value);
    if (name == "--batches") options.batches = std::stoll(value);
    if (name == "--search") options.search = std::stod(value);
  }
  if (options.folder.empty()) fail(ErrorKind::usage, "usage: bench_end_to_end FOLDER [options]");
  return options;
}

struct Decoding {
  const char* name;
  bool fast = true;
  double share = 0;
};

class Bench {
 public:
  explicit Bench(Options options)
      : options_(std::move(options)), files_(open_image_folder(options_.folder)) {
    std::string text = fmt::format(
        "data: {{train: \"{}\", val_split: 0.1, image_size: {}, workers: 0, gpu_decode: 0}}\n"
        "augment: {{random_resized_crop: true, horizontal_flip: true}}\n"
        "model: {}\nprecision: {}\ndevice: {}\ntrain: {{batch_size: {}}}\n",
        options_.folder, options_.side, options_.model, options_.precision, options_.device,
        options_.batch);
    experiment_ = std::make_unique<Experiment>(read_config_text(text, "bench_end_to_end"));
    device_ = experiment_->device;
    load_algorithms(device_);
    std::string why = "there is no GPU.";
    if (device_.kind == DeviceKind::cuda) decoder_ = backend_of(device_).make_jpeg_decoder(why);
    if (!decoder_) std::printf("{\"skipped\": \"no nvJPEG\", \"why\": \"%s\"}\n", why.c_str());
    auto source = std::make_unique<bench::SwitchedSource>();
    source_ = source.get();
    experiment_->train = std::move(source);
    source_->set(loader({.name = "fast"}));
    step_ = std::make_unique<TrainStep>(*experiment_);
  }

  void run() {
    std::vector<Decoding> ways = {{.name = "fast"}, {.name = "exact", .fast = false}};
    if (decoder_) {
      ways.push_back({.name = "half nvjpeg", .share = 0.5});
      ways.push_back({.name = "nvjpeg", .share = 1});
    }
    for (const Decoding& way : ways) load(way);
    warm_up_step();
    save_algorithms(device_);
    if (decoder_) {
      ways.insert(ways.end() - 1, {.name = "3/4 nvjpeg", .share = 0.75});
    }
    for (const Decoding& way : ways) train(way);
  }

 private:
  static constexpr int64_t warm_up = 30;

  JsonWriter row(const char* id, const char* decode) const {
    JsonWriter json;
    json.begin_object().field("id", id).field("decode", decode).field("workers", options_.workers);
    json.field("batch", options_.batch).field("device", device_.str());
    return json;
  }
  static void print(JsonWriter& json) {
    json.end_object();
    std::puts(json.str().c_str());
    std::fflush(stdout);
  }

  std::unique_ptr<BatchSource> loader(const Decoding& way) const {
    ImageDatasetOptions data{
        .preprocess = preprocess_of(experiment_->config.data),
        .augment = AugmentConfig{.random_resized_crop = true, .flip_horizontal = 0.5},
        .seed = 1,
        .fast_decode = way.fast};
    const auto dataset = std::make_shared<ImageDataset>(files_, std::move(data));
    const int64_t batches = options_.batches + 2 * warm_up;
    LoaderOptions how{.batch_size = options_.batch,
                      .workers = options_.workers,
                      .prefetch = 4,
                      .drop_last = true};
    how.jpeg_decoder = decoder_;
    how.jpeg_share = way.share;
    return make_loader(
        dataset, std::make_shared<bench::JoinedEpochs>(files_.size(), batches * options_.batch),
        how, {.device = device_, .dtype = experiment_->arena->compute_dtype()});
  }

  void load(const Decoding& way) {
    source_->set(loader(way));
    source_->start_epoch(0, 0);
    for (int64_t i = 0; i < warm_up; ++i) source_->next();
    backend_of(device_).synchronize();
    const LoaderStats before = source_->stats();
    const auto begin = Clock::now();
    for (int64_t i = 0; i < options_.batches; ++i) source_->next();
    backend_of(device_).synchronize();
    const double seconds = seconds_since(begin);
    const LoaderStats after = source_->stats();
    JsonWriter json = row("loader", way.name);
    const auto images = static_cast<double>(options_.batches * options_.batch);
    json.field("images_per_s", images / seconds);
    json.field("work_ms_per_image", 1e3 * (after.work_seconds - before.work_seconds) / images);
    json.field("note", source_->take_note());
    print(json);
  }

  // Plans are searched, memory is cached, the step is captured.
  void warm_up_step() {
    source_->set(loader({.name = "fast"}));
    source_->start_epoch(0, 0);
    for (int64_t i = 0; i < 12; ++i) {
      kept_ = *source_->next();
      step(kept_);
      if (i == 0 && device_.kind == DeviceKind::cuda) {
        CudaOptions cuda = cuda_options(device_);
        cuda.search_seconds = options_.search;
        set_cuda_options(device_, cuda);
      }
    }
  }

  void step(const Batch& batch) {
    step_->run(batch, {.number = ++number_, .learning_rate = 1e-4, .last_of_epoch = false});
  }

  double resident() {
    for (int64_t i = 0; i < warm_up; ++i) step(kept_);
    backend_of(device_).synchronize();
    const auto begin = Clock::now();
    for (int64_t i = 0; i < options_.batches; ++i) step(kept_);
    backend_of(device_).synchronize();
    const double seconds = seconds_since(begin);
    const double rate = static_cast<double>(options_.batches * options_.batch) / seconds;
    JsonWriter json = row("resident", "none");
    json.field("captured", step_->replays() > 0).field("images_per_s", rate);
    json.field("milliseconds", 1e3 * seconds / static_cast<double>(options_.batches));
    print(json);
    return rate;
  }

  void train(const Decoding& way) {
    const double without = resident();
    source_->set(loader(way));
    source_->start_epoch(0, 0);
    const auto next = [&] { step(*source_->next()); };
    for (int64_t i = 0; i < warm_up; ++i) next();
    backend_of(device_).synchronize();
    const double waited = source_->stats().wait_seconds;
    const auto begin = Clock::now();
    for (int64_t i = 0; i < options_.batches; ++i) next();
    backend_of(device_).synchronize();
    const double seconds = seconds_since(begin);
    const double rate = static_cast<double>(options_.batches * options_.batch) / seconds;
    JsonWriter json = row("training", way.name);
    json.field("model", options_.model).field("precision", options_.precision);
    json.field("images_per_s", rate);
    json.field("milliseconds", 1e3 * seconds / static_cast<double>(options_.batches));
    json.field("ratio_to_resident", rate / without);
    json.field("wait_share", (source_->stats().wait_seconds - waited) / seconds);
    json.field("jpeg_share", source_->jpeg_share()).field("note", source_->take_note());
    print(json);
  }

  Options options_;
  ImageFolder files_;
  std::unique_ptr<Experiment> experiment_;
  Device device_ = cpu_device;
  std::shared_ptr<JpegDecoder> decoder_;
  bench::SwitchedSource* source_ = nullptr;  // the experiment's
  std::unique_ptr<TrainStep> step_;
  Batch kept_;
  int64_t number_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Bench(parse(argc, argv)).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_end_to_end: %s\n", error.what());
    return 1;
  }
}
