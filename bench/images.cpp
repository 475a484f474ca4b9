// How long a device takes from decoded images to the network's input: 447x374 images to random
// resized crops, copied to the device for each batch, and already there. One JSON line per row.
// usage: bench_images [--device cuda] [--batch 256] [--side 224] [--dtype bf16|f16|f32]
//                       [--channels 4] [--groups 10] [--steps 20]
#include "core/backend/backend.h"
#include "core/error.h"
#include "core/io/json.h"
#include "data/staging/image_staging.h"
#include "data/transforms/augment_sampler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace whisker;

constexpr int image_height = 374;
constexpr int image_width = 447;
constexpr int64_t image_bytes = int64_t{3} * image_height * image_width;

struct Options {
  Device device{DeviceKind::cuda, 0};
  int64_t batch = 256;
  int side = 224;
  DType dtype = DType::bf16;
  int64_t channels = 4;
  int64_t groups = 10;
  int64_t steps = 20;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--device") options.device = Device::parse(value);
    if (name == "--batch") options.batch = std::stoll(value);
    if (name == "--side") options.side = std::stoi(value);
    if (name == "--dtype") {
      options.dtype = value == "f32" ? DType::f32 : value == "f16" ? DType::f16 : DType::bf16;
    }
    if (name == "--channels") options.channels = std::stoll(value);
    if (name == "--groups") options.groups = std::stoll(value);
    if (name == "--steps") options.steps = std::stoll(value);
  }
  return options;
}

struct Row {
  const char* id;
  AugmentConfig augment;
};

// One batch's records over one image each, packed or resident.
struct Packed {
  std::shared_ptr<ImageRows> rows;
  ImageBatch batch = {};
  int64_t bytes = 0;  // copied for each batch
};

Packed pack(const Row& row, const Options& options, const Image& image, void* resident) {
  const Preprocess preprocess{.size = {options.side, options.side}};
  Packed packed{.rows = std::make_shared<ImageRows>(std::make_shared<PinnedPool>(options.device),
                                                    options.batch)};
  for (int64_t i = 0; i < options.batch; ++i) {
    ImageRecord& record = packed.rows->record(i);
    record = sample_augmentation(row.augment, preprocess, {1, 0, static_cast<uint64_t>(i)},
                                 image_height, image_width);
    if (resident) {
      record.resident = true;
      set_source(record, reinterpret_cast<int64_t>(resident) + i * image_bytes, image_width);
    } else {
      pack_pixels(ImageView(image, record.crop), record, *packed.rows);
    }
  }
  packed.batch = packed.rows->batch(options.batch);
  for (const ImagePiece& piece : packed.batch.pieces) packed.bytes += piece.bytes;
  return packed;
}

void measure(const Row& row, const Options& options, const Image& image, void* resident) {
  Backend& backend = backend_of(options.device);
  const auto pipeline = backend.make_image_pipeline();
  if (!pipeline) fail(ErrorKind::usage, "{} does not finish images", options.device);
  const Packed packed = pack(row, options, image, resident);
  const Tensor inputs = empty({options.batch, options.side, options.side, options.channels},
                              {.dtype = options.dtype, .device = options.device});
  for (int i = 0; i < 3; ++i) pipeline->run(packed.batch, packed.rows, inputs);
  backend.synchronize();
  using Clock = std::chrono::steady_clock;
  std::vector<double> milliseconds;
  for (int64_t group = 0; group < options.groups; ++group) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < options.steps; ++i) pipeline->run(packed.batch, packed.rows, inputs);
    backend.synchronize();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
                           static_cast<double>(options.steps));
  }
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2];
  JsonWriter json;
  json.begin_object().field("id", row.id).field("images", resident ? "resident" : "copied");
  json.field("device", options.device.str()).field("batch", options.batch);
  json.field("side", options.side).field("dtype", std::string(name_of(options.dtype)));
  json.field("channels", options.channels).field("milliseconds", median);
  json.field("min", milliseconds.front()).field("max", milliseconds.back());
  json.field("images_per_s", 1e3 * static_cast<double>(options.batch) / median);
  json.field("copied_bytes", packed.bytes).field("written_bytes", inputs.bytes()).end_object();
  std::puts(json.str().c_str());
  std::fflush(stdout);
}

void run(const Options& options) {
  Image image;
  image.reshape(image_height, image_width);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  }
  const Row rows[] = {
      {"crop_flip", {.random_resized_crop = true, .flip_horizontal = 0.5}},
      {"crop_flip_jitter",
       {.random_resized_crop = true,
        .flip_horizontal = 0.5,
        .brightness = 0.2,
        .contrast = 0.2,
        .saturation = 0.2}},
      {"everything",
       {.random_resized_crop = true,
        .flip_horizontal = 0.5,
        .rotation = 15,
        .brightness = 0.2,
        .contrast = 0.2,
        .saturation = 0.2,
        .hue = 0.1,
        .erase = 0.25}},
  };
  Backend& backend = backend_of(options.device);
  const int64_t bytes = options.batch * image_bytes;
  void* const resident = backend.allocate(bytes, MemoryCategory::input);
  for (int64_t i = 0; i < options.batch; ++i) {
    backend.upload(image.rgb.data(), static_cast<uint8_t*>(resident) + i * image_bytes,
                   image_bytes);
  }
  for (const Row& row : rows) {
    measure(row, options, image, nullptr);
    measure(row, options, image, resident);
  }
  backend.deallocate(resident, bytes, MemoryCategory::input);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_images: %s\n", error.what());
    return 1;
  }
}
